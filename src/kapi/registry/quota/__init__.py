"""What objects count for in a ResourceQuota. Pure: objects in, amounts out; who counts and who refuses is elsewhere."""
