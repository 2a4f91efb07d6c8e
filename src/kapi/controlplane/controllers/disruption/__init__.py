"""The disruption controller: keeps the status of PodDisruptionBudgets up to date, which evictions obey."""
