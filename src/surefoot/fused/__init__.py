"""What a rollout does besides physics, as kernels: draws, tasks and scenarios printed as C++."""
