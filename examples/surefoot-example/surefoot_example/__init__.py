"""A robot, a reward term and a task for Surefoot, from outside its tree."""
