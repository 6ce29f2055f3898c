"""Report on a training from other processes, so that it is built even if the training is killed."""
