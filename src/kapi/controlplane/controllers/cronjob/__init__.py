"""The CronJob controller: the times of a schedule (`runs`), the Jobs of a CronJob (`jobs`), and the reconciler."""
