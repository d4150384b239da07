"""Reads param_groups and tensors in every step and binds them to a plan: what optimizers and ops share."""
