"""The kinds of the group batch: Job and CronJob."""
