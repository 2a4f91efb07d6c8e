"""The resourcequota controller: keeps the status of ResourceQuotas up to date."""
