"""What a work queue promises, written down a second time and as plainly as possible: slow, and obviously right.

Written from the promises, not from the code: a key is a record, and who is next is found by looking at all of them.
"""


class Record:
    def __init__(self):
        self.wanted = None  # the priority it is to be worked on with, or None
        self.since = 0  # when it got its place in the line
        self.held = False  # whether a worker has it
        self.due = None  # when it comes back by itself, or None
        self.asked = 0  # who asked first breaks ties between equal times
        self.due_priority = 0


class Model:
    def __init__(self):
        self.records = {}
        self.ticks = 0
        self.closed = False

    def _tick(self):
        self.ticks += 1
        return self.ticks

    def record(self, key):
        return self.records.setdefault(key, Record())

    def add(self, key, priority=0):
        record = self.record(key)
        if self.closed or (record.wanted is not None and record.wanted >= priority):
            return
        record.wanted = priority
        record.since = self._tick()

    def add_after(self, key, due, priority=0):
        record = self.record(key)
        if self.closed:
            return
        if record.due is None:
            record.due, record.asked, record.due_priority = due, self._tick(), priority
        else:
            record.due, record.due_priority = min(record.due, due), max(record.due_priority, priority)

    def times(self):
        """When keys come back by themselves, in order."""
        return sorted({record.due for record in self.records.values() if record.due is not None})

    def now_is(self, now):
        late = [(r.due, r.asked, key) for key, r in self.records.items() if r.due is not None and r.due <= now]
        for _, _, key in sorted(late):
            record = self.records[key]
            record.due = None
            self.add(key, record.due_priority)

    def ready(self):
        return [key for key, record in self.records.items() if record.wanted is not None and not record.held]

    def take(self):
        """The key that must be handed out next, with its priority; None when there is none."""
        best = None
        for key, record in self.records.items():
            if record.wanted is None or record.held:
                continue
            if best is None or (-record.wanted, record.since) < (-best[1].wanted, best[1].since):
                best = (key, record)
        if best is None:
            return None
        key, record = best
        priority, record.wanted, record.held = record.wanted, None, True
        return key, priority

    def done(self, key):
        record = self.records[key]
        record.held = False
        record.since = self._tick()

    def close(self):
        self.closed = True
        for record in self.records.values():
            record.due = None

    def held(self):
        return [key for key, record in self.records.items() if record.held]

    def idle(self):
        return not any(record.held or record.wanted is not None for record in self.records.values())
