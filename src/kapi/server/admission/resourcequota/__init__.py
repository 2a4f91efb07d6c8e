"""ResourceQuota: refuses what would exceed the quotas of a namespace, and charges them for what it admits."""
