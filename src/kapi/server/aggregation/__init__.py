"""Aggregation: requests for the group versions of other API servers are passed on to them, as APIServices say."""
