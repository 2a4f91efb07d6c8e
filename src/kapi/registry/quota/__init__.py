"""The usage of objects in ResourceQuotas. Pure: the resourcequota controller counts with it."""
