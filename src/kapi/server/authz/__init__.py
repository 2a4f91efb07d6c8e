"""Authorization: the attributes of a request, and the authorizers that decide on them."""
