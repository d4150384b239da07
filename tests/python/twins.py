"""Two equal sets of parameters that get equal gradients: one for altgrad, one for the reference."""

import copy
import io

import torch

SHAPES = [(), (1,), (7,), (8,), (0, 3), (5, 3), (16, 16), (4097,), (3, 4, 5)]

# Keyword arguments that reach every option and every hyper-parameter of torch's classes.
CONFIGS = {
    "AdamW": [{}, dict(lr=0.01, betas=(0.8, 0.95), eps=1e-6), dict(weight_decay=0.1, amsgrad=True),
              dict(maximize=True)],
    "Adam": [{}, dict(weight_decay=0.1), dict(amsgrad=True, maximize=True),
             dict(betas=(0.3, 0.9)), dict(weight_decay=0.1, decoupled_weight_decay=True)],
    "SGD": [{}, dict(lr=0.01, weight_decay=0.5), dict(momentum=0.9),
            dict(momentum=0.9, dampening=0.5, maximize=True),
            dict(momentum=0.9, nesterov=True, weight_decay=0.1)],
    "Adagrad": [{}, dict(lr=0.1, lr_decay=0.5, weight_decay=0.1),
                dict(initial_accumulator_value=0.1, maximize=True, eps=1e-6)],
    "RMSprop": [{}, dict(weight_decay=0.1, centered=True), dict(alpha=0.9, momentum=0.1),
                dict(centered=True, momentum=0.9, maximize=True, eps=1e-6)],
}
CASES = [(name, kwargs) for name, several in CONFIGS.items() for kwargs in several]


def through_a_file(state):
    """A state_dict as torch.load reads it."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file)


def opened(held):
    """The states of a parameter in a file, with codes in the place of the dicts that hold them."""
    return {key: value["codes"] if isinstance(value, dict) else value for key, value in held.items()}


def make(shapes=SHAPES, dtype=torch.float32, count=2):
    """`count` equal lists of parameters."""
    values = [torch.randn(shape).to(dtype) for shape in shapes]
    return [[torch.nn.Parameter(v.clone()) for v in values] for _ in range(count)]


def give_grads(*lists, scale=1.0):
    """Equal new gradients for the parameters at each place, in each one's dtype."""
    for equals in zip(*lists):
        grad = (scale * torch.randn(equals[0].shape)).to(equals[0].dtype)
        for param in equals:
            param.grad = grad.to(param.dtype).clone()


def step(optimizers, lists, count=1):
    """`count` steps of every optimizer, each with equal new gradients for their lists."""
    for _ in range(count):
        give_grads(*lists)
        for optimizer in optimizers:
            optimizer.step()


def ulps(new, other, old, bits=24):
    """The largest difference in units of the last of `bits` bits of max(|old|, |new|)."""
    new, other = new.float(), other.float()
    if new.numel() == 0:
        return 0.0
    size = torch.maximum(old.abs(), new.abs()).clamp_min(2.0 ** -126)
    ulp = torch.exp2(torch.frexp(size)[1].double() - bits)
    return float(((new.double() - other.double()).abs() / ulp).max())


def beside_a_file(weight, make):
    """An optimizer of `make` that has stepped, one that goes on from its file, and a copy of that, with equal gradients."""
    optimizer = make([weight])
    optimizer.step()
    held = through_a_file({"w": weight.detach(), "o": optimizer.state_dict()})
    resumed = make([torch.nn.Parameter(held["w"])])
    resumed.load_state_dict(held["o"])
    runs = optimizer, resumed, copy.deepcopy(resumed)
    for run in runs[1:]:
        run.param_groups[0]["params"][0].grad = weight.grad.clone()
    return runs
