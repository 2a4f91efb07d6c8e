"""Kinds that make pods: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob and their kin."""
