"""The work queue of a controller.

`workqueue` holds the queues and their guarantees, `order` the order of keys that wait and of keys that come back later,
`ratelimit` the delay after which a failed key comes back.
"""

from kapi.controller.queue.workqueue import (
    LIVE_PRIORITY,
    LOW_PRIORITY,
    DelayingQueue,
    QueueShutDown,
    RateLimitingQueue,
    WorkQueue,
)

__all__ = ["LIVE_PRIORITY", "LOW_PRIORITY", "DelayingQueue", "QueueShutDown", "RateLimitingQueue", "WorkQueue"]
