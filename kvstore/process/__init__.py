"""What belongs to the process as a whole: garbage collection, the threads of numpy, and what else it runs."""

#: True in a process that runs nothing but kvstore, such as the command and the workers of an ingest. There, kvstore
#: imports spaCy without torch: thinc imports torch if it is installed, which takes seconds.
runs_only_kvstore = False
