"""The state of the whole process: garbage collection, the threads of numpy, and if it runs anything but kvstore."""

#: True in a process that runs nothing but kvstore, such as the command and the workers of an ingest. There, kvstore
#: imports spaCy without torch: thinc imports torch if it is installed, which takes seconds.
runs_only_kvstore = False
