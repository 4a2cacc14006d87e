"""What belongs to the process as a whole: garbage collection and the threads of numpy."""
