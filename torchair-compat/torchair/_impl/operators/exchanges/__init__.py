"""Products joined to exchanges among ranks: of equal blocks, and of uneven rows."""
