"""altgrad.optim on the GPU, byte for byte as on the CPU: the cases of tests/python that step an optimizer."""

import copy
import itertools
import pathlib
import pickle
import tempfile

import torch

import gpu as gpus
from pairs import Pair, every, through_file, twins

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
# Beside torch's classes, those of the literature; the second line has values per row, column, tensor and step.
CASES = twins.CASES + [("Lion", {}), ("Lion", dict(weight_decay=0.1)), ("LAMB", {}), ("ADOPT", {}), ("AdEMAMix", {}),
                       *((name, {}) for name in ("Adafactor", "CAME", "SM3", "SinkGD", "AdamMini", "Prodigy"))]
FIRST = [next(case for case in CASES if case[0] == name) for name in dict(CASES)]
CLIP, AMP = dict(max_grad_norm=0.5), dict(fused_amp=True)
STORAGES = ["m=f32 v=f32", "m=bf16 v=ocp.e5m2", "master=f32", "master=f32 m=bf16 v=f32", "master=f32 copy=ocp.e4m3fn"]
SMALL = [(8,), (5, 3), (4097,)]


def maker(name, **options):
    import altgrad
    return lambda params: getattr(altgrad.optim, name)(params, **options)


def scaled(number, params, optimizer):
    """As GradScaler hands them over; every fourth step is skipped."""
    where = params[0].device
    optimizer.grad_scale = torch.tensor([4.0]).to(where)
    optimizer.found_inf = torch.tensor([float(number % 4 == 3)]).to(where)


def stock_classes(bundles, device, share=slice(None)):
    """Every class and configuration in every dtype; one of each class with clip, with a scaler's tensors, with both."""
    gpu = gpus.find(device)

    def case(name, options, dtype, ways):
        def body():
            pair = Pair(gpu, maker(name, **options, **ways), dtype=dtype)
            pair.step(5, before=scaled if "fused_amp" in ways else None).same()
        return f"{name} {options} {dtype} {list(ways)}", body
    plain = [case(name, options, dtype, {}) for (name, options), dtype in itertools.product(CASES, DTYPES.values())]
    further = [case(name, options, dtype, ways) for (name, options), dtype, ways in itertools.product(
        FIRST, DTYPES.values(), (CLIP, AMP, CLIP | AMP))]
    # On the test driver tests/python has them all; here the code of this file is tried.
    return every((plain + further if gpu.real else plain[::4] + further[::4])[share])


def mixed_and_stored(bundles, device, share=slice(None)):
    """Parameters of three dtypes in one optimizer; states, masters and copies in formats of their own; a user's rule."""
    import altgrad
    gpu = gpus.find(device)
    mixed = [list(DTYPES.values())[i % 3] for i in range(len(twins.SHAPES))]

    def case(make, **choice):
        def body():
            Pair(gpu, make, **choice).step(4).same()
        return body
    cases = [(f"mixed {name} {list(ways)}", case(maker(name, **ways), dtypes=mixed))
             for name in ("AdamW", "SGD", "LAMB") for ways in ({}, CLIP)]
    for storage, dtype, ways in itertools.product(STORAGES, ("bf16", "f16"), ({}, CLIP)):
        make = altgrad.optim.FromRule("adamw", storage=storage)
        cases.append((f"{storage} of {dtype} {list(ways)}", case(lambda params, make=make, ways=ways: make(params, **ways),
                                                                 dtype=DTYPES[dtype])))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "largest.mlir")
        path.write_text(RULE)
        cases = cases[::1 if gpu.real else 4] + [("a rule of the user's", case(altgrad.optim.FromRule(path)))]
        return every(cases[share])


RULE = """
altgrad.rule @largest(param %w: f32, grad %g: f32, state %best: f32, hyper %lr: f64 = 1.0e-2) {
  %size = math.absf %g : f32
  %best1 = maximumf %best, %size : f32
  %down = negf %lr : f64
  %step = truncf %down : f64 to f32
  %one = constant 1.0 : f32
  %denom = addf %best1, %one : f32
  %sg = mulf %step, %g : f32
  %dw = divf %sg, %denom : f32
  %w1 = addf %w, %dw : f32
  altgrad.yield param(%w1) state(%best1)
}
"""


def groups_and_schedulers(bundles, device):
    """Groups with numbers and options of their own, one added later; schedulers; learning rates that are tensors."""
    gpu = gpus.find(device)
    split = lambda ps: [dict(params=ps[:3], lr=0.1), dict(params=ps[3:5], weight_decay=0.3),
                        dict(params=ps[5:], lr=0.01, maximize=True)]
    schedulers = torch.optim.lr_scheduler

    def grouped(name):
        pair = Pair(gpu, lambda ps: maker(name, lr=0.05)(split(ps)))
        pair.step(3).same()

    def added(ways):
        pair = Pair(gpu, lambda ps: maker("SGD", lr=0.1, momentum=0.9, **ways)(ps[:4])).step(2)
        pair.both(lambda o, ps: o.add_param_group(dict(params=ps[4:], momentum=0.0)))
        pair.step(2)
        pair.both(lambda o, ps: o.param_groups[1].update(momentum=0.5, dampening=0.5))
        pair.both(lambda o, ps: o.param_groups[0].update(maximize=True))
        pair.step(2).same()

    def scheduled(make, name, tensor):
        pair = Pair(gpu, maker(name, lr=0.1), SMALL)
        if tensor:
            pair.both(lambda o, ps: o.param_groups[0].update(lr=torch.tensor(0.1).to(ps[0].device)))
        moves = [make(o) for o in pair.optimizers]
        for _ in range(8):
            pair.step()
            for move in moves:
                move.step()
        pair.same()

    def tensors(shape, on_cpu):
        pair = Pair(gpu, maker("AdamW", lr=0.01), SMALL)
        on = lambda ps: "cpu" if on_cpu else ps[0].device
        pair.both(lambda o, ps: o.param_groups[0].update(
            lr=torch.full(shape, 0.01, dtype=torch.float64).to(on(ps)),
            betas=(torch.full(shape, 0.8, dtype=torch.float64).to(on(ps)), 0.999)))
        pair.step(3)
        pair.both(lambda o, ps: o.param_groups[0]["lr"].mul_(0.5))
        pair.step(2).same()

    makers = {"StepLR": lambda o: schedulers.StepLR(o, 2, gamma=0.5),
              "CosineAnnealingLR": lambda o: schedulers.CosineAnnealingLR(o, 10),
              "LambdaLR": lambda o: schedulers.LambdaLR(o, lambda t: 1 / (1 + t)),
              "OneCycleLR": lambda o: schedulers.OneCycleLR(o, 0.1, total_steps=20, cycle_momentum=False)}
    cases = [(f"groups of {name}", lambda name=name: grouped(name)) for name in ("AdamW", "SGD", "RMSprop")]
    cases += [(f"a group added, {list(ways)}", lambda ways=ways: added(ways)) for ways in ({}, CLIP)]
    cases += [(f"{make} of {name}, tensor {tensor}", lambda a=(makers[make], name, tensor): scheduled(*a))
              for make, name, tensor in itertools.product(makers, ("AdamW", "SGD"), (False, True))]
    cases += [(f"tensors {shape}, on the CPU {on_cpu}", lambda a=(shape, on_cpu): tensors(*a))
              for shape, on_cpu in itertools.product([(), (1,), (1, 1)], (False, True))]
    return every(cases)


def gradients_of_all_kinds(bundles, device):
    """None that comes and goes, layouts that are copied first, gradients of another dtype, spoilt ones, none at all."""
    gpu = gpus.find(device)
    odd = [(6, 4), (4, 6), (3, 4, 5, 2), (9, 9)]
    layouts = [lambda t: t.t(), lambda t: t[:, ::2], lambda t: t.contiguous(memory_format=torch.channels_last),
               lambda t: t[1:, 2:]]

    def come_and_go(name, ways):
        def drop(number, params, optimizer):
            params[0].grad = None if number % 3 else params[0].grad
            params[2].grad = None
        Pair(gpu, maker(name, **ways), SMALL).step(7, before=drop).same()

    def laid_out(name, ways, of_params, of_grads):
        rebuild = lambda grad, place: layouts[place](
            torch.zeros(odd[place], dtype=grad.dtype).to(grad.device)).copy_(grad) if of_grads else None
        pair = Pair(gpu, maker(name, **ways), odd, build=(lambda v, place: layouts[place](v)) if of_params else None)
        for _ in range(3):
            if of_grads and of_params:
                pair.step(build=rebuild)
            elif of_grads:
                pair.step(build=lambda g, place: g.flip(0).contiguous().flip(0) if g.dim() != 2 else
                          g.t().contiguous().t())
            else:
                pair.step()
        pair.same()

    def replaced():
        pair = Pair(gpu, maker("AdamW", lr=0.1), SMALL).step(2)

        def change(optimizer, params):
            for p in params:
                p.data = p.data.clone()
                optimizer.state[p]["exp_avg"] = torch.ones_like(p)
                optimizer.state[p]["step"] = torch.tensor(7.0).to(p.device)
        pair.both(change)
        pair.step(2).same()

    def spoilt(ways):
        def spoil(number, params, optimizer):
            params[number % len(params)].grad.view(-1)[number] = (float("inf"), float("nan"))[number % 2]
        Pair(gpu, maker("AdamW", **ways), SMALL).step(4, before=spoil).same()

    def none_at_all():
        pair = Pair(gpu, maker("AdamW", **CLIP), SMALL)
        pair.both(lambda o, ps: o.step())
        pair.step().same()

    def closure():
        pair = Pair(gpu, maker("SGD", lr=0.1, momentum=0.9), SMALL)

        def call(optimizer, params):
            def loss():
                optimizer.zero_grad()
                value = sum((p * p).sum() for p in params)
                value.backward()
                return value
            assert optimizer.step(loss).device == params[0].device
        pair.both(call)
        pair.both(call)
        pair.same()

    ways = ({}, CLIP)
    cases = [(f"come and go, {name} {list(w)}", lambda a=(name, w): come_and_go(*a))
             for name, w in itertools.product(("AdamW", "SGD", "Adagrad"), ways)]
    cases += [(f"layouts {name} {list(w)} {which}", lambda a=(name, w, *which): laid_out(*a)) for name, w, which in
              itertools.product(("AdamW", "SGD"), ways, ((True, False), (False, True), (True, True)))]
    cases += [(f"spoilt {list(w)}", lambda w=w: spoilt(w)) for w in ways]
    return every(cases + [("replaced", replaced), ("none at all", none_at_all), ("closure", closure)])


def checkpoints(bundles, device):
    """From the CPU to the GPU and back as never saved; both ways with torch's own class; copies go on alone."""
    import altgrad
    gpu = gpus.find(device)
    storages = [altgrad.optim.FromRule("adamw", storage=s) for s in ("m=bf16 v=f32", "master=f32 copy=ocp.e4m3fn")]
    classes = [(f"{name} {options}", maker(name, **options), torch.float32) for name, options in FIRST]
    classes += [("AdamW bf16", maker("AdamW", amsgrad=True), torch.bfloat16)]
    classes += [("stored", make, torch.bfloat16) for make in storages]

    def there_and_back(make, dtype):
        pair = Pair(gpu, make, dtype=dtype)
        host = [torch.nn.Parameter(p.detach().clone()) for p in pair.params[0]]
        whole = pair.make(host)
        pair.params.append(host)
        pair.optimizers.append(whole)
        for saves in (True, True, True, False):
            for _ in range(2):
                for values in zip(*pair.params):
                    grad = torch.randn(values[0].shape).to(dtype)
                    for p in values:
                        p.grad = grad.clone().to(p.device)
                for optimizer in pair.optimizers:
                    optimizer.step()
            if saves:
                saved = [through_file(o.state_dict()) for o in pair.optimizers[:2]]
                for optimizer, state in zip(pair.optimizers, reversed(saved)):
                    optimizer.load_state_dict(state)
        pair.same("the optimizers that exchange their files,")
        pair.params, pair.optimizers = [host, pair.params[1]], [whole, pair.optimizers[1]]
        pair.same("the one that was never saved,")

    def with_torch(name, options, forward):
        ours, theirs = getattr(altgrad.optim, name), getattr(torch.optim, name)
        first, second = (theirs, ours) if forward else (ours, theirs)
        a, b = ([torch.nn.Parameter(p) for p in of] for of in zip(*[
            (v, v.clone()) for v in (torch.randn(shape).to(gpu.device) for shape in SMALL)]))
        begun, whole = first(a, **options), theirs(b, **options)
        twins_step = lambda *optimizers: [grads(a, b), [o.step() for o in optimizers]]
        for _ in range(3):
            twins_step(begun, whole)
        ended = second(a, **options)
        ended.load_state_dict(through_file(begun.state_dict()))
        for _ in range(3):
            twins_step(ended, whole)
        for p, q in zip(a, b):
            torch.testing.assert_close(p.cpu(), q.cpu())

    def grads(*lists):
        for values in zip(*lists):
            grad = torch.randn(values[0].shape)
            for p in values:
                p.grad = grad.clone().to(p.device)

    def copied(clone):
        pair = Pair(gpu, maker("AdamW", **CLIP), SMALL).step(2)
        pair.optimizers = [clone(o) for o in pair.optimizers]
        pair.params = [o.param_groups[0]["params"] for o in pair.optimizers]
        pair.step(2).same()

    cases = [(name, lambda a=(make, dtype): there_and_back(*a)) for name, make, dtype in classes]
    cases += [(f"with torch's {name}, {forward}", lambda a=(name, options, forward): with_torch(*a))
              for name, options in (("AdamW", dict(amsgrad=True)), ("SGD", dict(momentum=0.9)), ("RMSprop", {}))
              for forward in (True, False)]
    if gpu.real:
        cases.append(("deepcopy", lambda: copied(copy.deepcopy)))
        cases.append(("pickle", lambda: copied(lambda o: pickle.loads(pickle.dumps(o)))))
    return every(cases)


def grad_scaler(bundles, device):
    """GradScaler's whole protocol, with a spoilt step, as on the CPU; what torch steps beside the kernels."""
    import altgrad.amp
    gpu = gpus.find(device)

    def scaler_runs(name, ways, unscale, made=torch.amp.GradScaler):
        pair = Pair(gpu, maker(name, lr=0.1, **ways), SMALL)
        scalers = [made(p[0].device.type, init_scale=128.0, growth_interval=2) for p in pair.params]
        for number in range(6):
            factors = [torch.randn(shape) for shape in SMALL]
            for params, optimizer, scaler in zip(pair.params, pair.optimizers, scalers):
                optimizer.zero_grad()
                scaler.scale(sum((p * f.to(p.device)).sum() for p, f in zip(params, factors))).backward()
                if number == 3:
                    params[-1].grad.view(-1)[0] = float("inf")
                if unscale:
                    scaler.unscale_(optimizer)
                scaler.step(optimizer)
                scaler.update()
            scales = [scaler.get_scale() for scaler in scalers]
            assert scales[0] == scales[1], scales
        pair.same()

    def beside_torch(ways):
        pair = Pair(gpu, maker("AdamW", lr=0.1, **ways), SMALL, dtypes=[torch.float32, torch.float64, torch.bfloat16])
        pair.step(3)
        for host, other in zip(*pair.params):
            torch.testing.assert_close(host.detach(), other.detach().cpu())

    cases = [(f"{name} {list(ways)}, unscale_ {unscale}", lambda a=(name, ways, unscale): scaler_runs(*a))
             for name, ways, unscale in itertools.product(("AdamW", "SGD", "Lion"), ({}, AMP, CLIP | AMP), (False, True))]
    own = altgrad.amp.GradScaler
    cases += [(f"{name} {list(ways)}, a GradScaler of ours", lambda a=(name, ways, False, own): scaler_runs(*a))
              for name, ways in itertools.product(("AdamW", "SGD", "Lion"), ({}, CLIP))]
    return every(cases + [(f"float64 beside, {list(ways)}", lambda w=ways: beside_torch(w)) for ways in ({}, CLIP)])


def _shares(check, count):
    """The same check in pieces, which compile beside each other."""
    def piece(first):
        def check_piece(bundles, device):
            return check(bundles, device, slice(first, None, count))
        check_piece.__name__ = f"{check.__name__}-{first + 1}"
        return check_piece
    return map(piece, range(count))


CHECKS = [*_shares(stock_classes, 4), *_shares(mixed_and_stored, 3), groups_and_schedulers, gradients_of_all_kinds, checkpoints, grad_scaler]
