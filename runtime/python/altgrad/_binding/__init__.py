"""Groups and tensors, looked at in every step and bound to a plan: what optimizers and ops share."""
