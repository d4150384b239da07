"""Pairs of lives that must have the same bits: one goes straight on, the other goes a way that changes nothing."""

import copy
import io
import pickle
import random
import warnings

import torch

import altgrad
import freerule
import shrinking

CLASSES = {  # words, and the states of which a storage may speak
    "AdamW": [{}, dict(amsgrad=True), dict(weight_decay=0.0)], "Adam": [{}, dict(amsgrad=True, weight_decay=0.1)],
    "SGD": [{}, dict(momentum=0.9), dict(momentum=0.9, dampening=0.5), dict(momentum=0.5, nesterov=True, weight_decay=0.1)],
    "RMSprop": [{}, dict(centered=True, momentum=0.9)], "Adagrad": [{}, dict(initial_accumulator_value=0.1, lr_decay=0.1)],
    "Lion": [{}], "LAMB": [{}], "ADOPT": [{}], "AdEMAMix": [{}], "ManifoldAdamW": [{}],
    "Muon": [{}], "NorMuon": [{}], "AdamW8bit": [{}], "AdamW4bit": [{}], "AdamWFp8": [{}], "Lion8bit": [{}],
    "signsgd": [{}], "rule": [{}]}
NARROW = ("AdamW8bit", "AdamW4bit", "AdamWFp8", "Lion8bit")
STORAGES = ["", "", "states=f32", "states=bf16", "states=bf16,stochastic", "states=ocp.e4m3fn:128", "states=ocp.e5m2:64,keep_positive",
            "states=bnb8:256", "copy=bf16", "copy=ocp.e4m3fn,delayed:4", "copy=mxfp8", "master=f32", "master=f32 states=bf16",
            "master=bf16+i16", "master=bf16+i8", "param=bf16,stochastic", "param=bf16,stochastic32 states=bf16,stochastic"]
CLIPS = [None, None, 0.5, "percentile:50", "agc:0.01", "agc-unit:0.01"]
SHAPES = [(7,), (4099,), (5, 3), (64, 64), (70, 96), (33, 130), (16, 3, 3, 3), (2, 5, 64), (1, 4096), (40, 128), (300, 128)]
WAYS = ["file", "groups", "late", "guest", "layout", "gradients", "threads", "moved", "statistics", "scaled", "skipped",
        "rate", "read", "split"]
FILES = ["dict", "save", "dcp", "deepcopy", "pickle"]
REFUSALS = (ValueError, TypeError, RuntimeError, NotImplementedError, altgrad.Error)
REFUSED = "altgrad", "<rule>", "storage", "initial_accumulator_value=", "tensors["  # how what pages rule out begins


def generate(seed):
    """Two lives as data: what both have, and the ways of the second one."""
    dice = random.Random(seed)
    name = dice.choice(list(CLASSES))
    spec = {"seed": seed, "name": name, "words": dice.choice(CLASSES[name]), "clip": dice.choice(CLIPS),
            "storage": "" if name in NARROW and dice.random() < 0.7 else dice.choice(STORAGES), "rule": "",
            "shapes": [dice.choice(SHAPES) for _ in range(dice.randint(1, 5))], "steps": dice.randint(1, 7),
            "absent": dice.choice([0, 0, 0.2, 0.5]), "infinite": dice.choice([0, 0.3]), "scaler": dice.random() < 0.25,
            "profile": dice.choice([None] * 4 + ["torch"]) if name in ("AdamW", "Adam", "SGD") else None,
            "ways": dice.sample(WAYS, dice.choice([1, 1, 2, 3])), "file": dice.choice(FILES)}
    narrow = "bf16" in spec["storage"].split("states")[0] or "master" in spec["storage"]
    spec["dtypes"] = [dice.choice(["bfloat16"] * 3 + ["float32"] if narrow else ["float32", "float32", "bfloat16", "float16"])
                      for _ in spec["shapes"]]
    if dice.random() < 0.5:
        spec["dtypes"] = [spec["dtypes"][0]] * len(spec["shapes"])
    spec["at"] = [dice.randrange(spec["steps"]) for _ in range(dice.choice([1, 1, 2]))]
    spec["cut"], spec["begins"] = dice.randrange(len(spec["shapes"]) + 1), dice.randint(0, spec["steps"])
    if name == "rule":
        spec["rule"] = _rule(seed, "layout" in spec["ways"])
    if name in ("Muon", "NorMuon"):
        spec["shapes"] = [shape for shape in spec["shapes"] if len(shape) == 2] or [(16, 8)]
    spec["ways"] = [way for way in spec["ways"] if applies(way, spec)] or ["file"]
    return spec


def _rule(seed, plain):
    """Of a random rule: of elements alone where sums would have another order."""
    rng = freerule.np.random.default_rng([seed, 47])
    while True:
        rule = freerule.Rule(rng, [] if plain else [f"1x{freerule.LENGTHS[seed % 5]}", freerule.TILES[seed % 2]], not plain and seed % 3 == 0)
        made = {key: getattr(rule, key) for key in ("hypers", "states", "unit_states", "statements", "yields")}
        if not plain or not any(s[1] == "reduce" for s in made["statements"]):
            return freerule.text(made)


def applies(way, spec):
    """Whether a way may change nothing: sums in another order have other bits, draws go with the count of steps."""
    draws, summed = "stochastic" in spec["storage"], spec["clip"] or spec["name"] in ("LAMB", "Muon", "NorMuon")
    blocks = spec["name"] in NARROW or ":" in spec["storage"] or "copy" in spec["storage"]
    if way == "layout":
        return not (summed or blocks or draws)
    if way in ("scaled", "skipped"):
        return not spec["scaler"] and not draws and spec["clip"] is None and not spec["profile"]
    if way == "late":
        return spec["name"] != "Adagrad"  # which makes its states with the optimizer, those of later groups in a step
    if way == "split":
        return not (draws or spec["clip"] or spec["scaler"])
    return True


#===-- A life -----------------------------------------------------------------===#

class Held(torch.nn.Module):
    def __init__(self, params):
        super().__init__()
        self.params = torch.nn.ParameterList(params)


class Course:
    """Parameters, their optimizers and their scaler, from the first step to the last."""

    def __init__(self, spec, ways):
        self.spec, self.ways = spec, ways
        self.params = [torch.nn.Parameter(self.laid(value)) for value in self.numbers(-1)]
        self.optimizers = self.made(self.params)
        self.scaler = self.scalers()

    def scalers(self):
        used = self.spec["scaler"] or {"scaled", "skipped"} & set(self.ways)
        return altgrad.amp.GradScaler("cpu", init_scale=16.0, growth_interval=3) if used else None

    def numbers(self, step):
        """Of each parameter new numbers, the same in both lives."""
        torch.manual_seed(1000 * self.spec["seed"] + step + 1)
        return [torch.randn(shape).to(getattr(torch, dtype)) for shape, dtype in zip(self.spec["shapes"], self.spec["dtypes"])]

    def laid(self, x, way="layout"):
        """In another order of memory, if this life has it."""
        if way not in self.ways or x.dim() < 2:
            return x
        return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x.mT.contiguous().mT

    def made(self, params):
        spec, ways = self.spec, self.ways
        cut = spec["cut"]
        words = {**spec["words"], "lr": torch.tensor(0.0078125) if "rate" in ways else 0.0078125, "max_grad_norm": spec["clip"],
                 "seed": 7 if "stochastic" in spec["storage"] else None, "statistics": "statistics" in ways, "storage": spec["storage"] or None, "profile": spec["profile"]}
        words = {key: value for key, value in words.items() if value is not None}
        if spec["name"] in ("rule", "signsgd"):
            make = altgrad.optim.FromRule(spec["rule"] or spec["name"], storage=words.pop("storage", ""))
            words.pop("lr") if spec["rule"] else None
        else:
            make = getattr(altgrad.optim, spec["name"])
        parts = [of for of in (params[:cut], params[cut:]) if of]
        if "split" in ways:
            return [make(of, **words) for of in parts]
        if "late" in ways and cut and cut < len(params):
            self.later = lambda optimizer: optimizer.add_param_group({"params": self.params[cut:]})  # those of a copy, too
            return [make(params[:cut], **words)]
        made = make([{"params": of} for of in parts] if "groups" in ways else params, **words)
        if "guest" in ways:
            made.add_param_group({"params": [torch.nn.Parameter(torch.randn(48, 32).to(dtype)) for dtype in
                                             dict.fromkeys(p.dtype for p in params)]})
        return [made]

    def grads(self, step):
        dice = random.Random(f"{self.spec['seed']} {step}")
        for index, (p, grad) in enumerate(zip(self.params, self.numbers(step + 100))):
            absent = dice.random() < self.spec["absent"]
            if "late" in self.spec["ways"] and index >= self.spec["cut"] > 0:
                absent |= step < self.spec["begins"]
            p.grad = None if absent else self.laid(grad.clone(), "gradients" if "layout" not in self.ways else "layout")
        bad = dice.random() < self.spec["infinite"] and self.spec["scaler"]
        given = [p for p in self.params if p.grad is not None]
        if bad and given:
            given[-1].grad.view(-1) if given[-1].grad.is_contiguous() else None
            given[-1].grad[(0,) * given[-1].grad.dim()] = float("inf")

    def stepped(self):
        if not self.scaler or not any(p.grad is not None for p in self.params):
            for optimizer in self.optimizers:
                optimizer.step()
            return
        scale = self.scaler.scale(torch.ones(()))
        for p in self.params:
            p.grad = p.grad if p.grad is None else p.grad * scale.to(p.dtype)
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()

    def skipped(self, step):
        """A step more, whose gradients are infinite."""
        if self.scaler and "skipped" in self.ways and step % 2 == 0:
            kept = [p.grad for p in self.params]
            for p in self.params:
                p.grad = None if p.grad is None else torch.full_like(p.grad, float("inf"))
            self.stepped()
            for p, grad in zip(self.params, kept):
                p.grad = grad

    def moved(self):
        """Other memory, which begins an element later."""
        for p in self.params:
            room = torch.empty(p.numel() + 1, dtype=p.dtype)
            p.data = room[1:].as_strided(p.shape, p.stride(), 1).copy_(p.data)

    def run(self):
        for step in range(self.spec["steps"]):
            for _ in range(self.spec["at"].count(step) if "file" in self.ways else 0):
                self.renewed()
            if "late" in self.ways and step == self.spec["begins"] and hasattr(self, "later"):
                self.later(self.optimizers[0])
            if "moved" in self.ways:
                self.moved()
            self.grads(step)
            self.skipped(step)
            self.stepped()
            if "read" in self.ways:
                [(optimizer.state_dict(), optimizer.zero_grad()) for optimizer in self.optimizers]
        return self

    #===-- A file ---------------------------------------------------------------===#

    def renewed(self):
        """Everything made anew from a file of the kind that this life has."""
        how = self.spec["file"]
        if how in ("deepcopy", "pickle"):
            both = (self.params, self.optimizers)
            self.params, self.optimizers = copy.deepcopy(both) if how == "deepcopy" else pickle.loads(pickle.dumps(both))
            return
        old, optimizers, began = self.params, self.optimizers, not hasattr(self, "later")
        groups = [len(optimizer.param_groups) for optimizer in optimizers]
        self.params = [torch.nn.Parameter(p.detach().clone()) for p in old]
        self.optimizers = self.made(self.params)
        if not began and groups[0] == 2:
            self.later(self.optimizers[0])
        for one, other in zip(optimizers, self.optimizers):
            self.loaded(how, one, other)
        if self.scaler:
            file, self.scaler = self.scaler.state_dict(), self.scalers()
            self.scaler.load_state_dict(file)

    def loaded(self, how, one, other):
        # DCP asks for a state of every parameter, and makes those of an optimizer that has none by a step, which counts.
        if how == "dcp" and all(p in one.state for group in one.param_groups for p in group["params"]):
            from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
            theirs, ours = (Held([p for group in o.param_groups for p in group["params"]]) for o in (one, other))
            return set_optimizer_state_dict(ours, other, through_file(get_optimizer_state_dict(theirs, one)))
        file = one.state_dict()
        return other.load_state_dict(through_file(file) if how == "save" else copy.deepcopy(file))


def through_file(file):
    saved = io.BytesIO()
    torch.save(file, saved)
    saved.seek(0)
    return torch.load(saved, weights_only=True)


#===-- Two of them ------------------------------------------------------------===#

def bits(x):
    return x.detach().contiguous().view(-1).view(torch.uint8) if isinstance(x, torch.Tensor) and x.dim() else x


def same(a, b):
    return torch.equal(bits(a), bits(b)) if isinstance(a, torch.Tensor) and a.dim() else a == b or (a != a and b != b)


def differences(one, other):
    states = [{p: s for optimizer in course.optimizers for p, s in optimizer.state.items()} for course in (one, other)]
    for index, (p, q) in enumerate(zip(one.params, other.params)):
        if not same(p, q):
            yield f"parameter {index} of {tuple(p.shape)} {p.dtype}: {int((p != q).sum())} elements, {float((p - q).abs().max())} at most"
        mine, theirs = states[0].get(p, {}), states[1].get(q, {})
        for key in {**mine, **theirs}:
            if key not in mine or key not in theirs:
                yield f"{key} of parameter {index} is of one life alone"
            elif not same(mine[key], theirs[key]):
                yield f"{key} of parameter {index} of {tuple(p.shape)} {p.dtype}"


def run(spec):
    """Words on what differs; None where both lives are alike, "refused: …" where the first one is refused."""
    threads = torch.get_num_threads()
    try:
        try:
            first = Course(spec, []).run()
        except REFUSALS as error:
            if not str(error).startswith(REFUSED):
                raise
            return "refused: " + str(error)[:60]
        torch.set_num_threads(3 if "threads" in spec["ways"] else threads)
        return "\n".join(differences(first, Course(spec, spec["ways"]).run())) or None
    finally:
        torch.set_num_threads(threads)


def smaller(spec):
    changes = [{"ways": [w for w in spec["ways"] if w != way]} for way in spec["ways"]] + [
        {"clip": None}, {"scaler": False}, {"infinite": 0}, {"absent": 0}, {"storage": ""}, {"words": {}}, {"profile": None},
        {"name": "AdamW", "words": {}}, {"at": spec["at"][:1]}, {"steps": max(spec["steps"] - 1, 1)}, {"dtypes": ["float32"] * len(spec["dtypes"])}]
    changes += [{key: spec[key][:i] + spec[key][i + 1:] for key in ("shapes", "dtypes")} for i in range(len(spec["shapes"]))
                if len(spec["shapes"]) > 1]
    for change in changes:
        twin = {**spec, **change}
        if twin != spec and twin["ways"] and all(applies(way, twin) for way in twin["ways"]):
            yield twin


def kind_of(words):
    """The name of an exception; "" of bits that differ."""
    kind = words.split(":")[0]
    return kind if "Error" in kind else ""


def warm():
    warnings.simplefilter("ignore")
    run({**generate(0), "name": "AdamW", "words": {}, "storage": "", "ways": ["file"], "file": "dcp", "scaler": True})


def live(life):
    spec = generate(life.seed)
    try:
        words = run(spec)
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
    if words and words.startswith("refused"):
        life.said[words] += 1
        return
    if words:
        spec, words = shrinking.shrink(run, smaller, spec, words, kind_of)
        raise AssertionError(f"{words}\npairs.run({spec})")
    life.said["pairs of the same bits: " + " ".join(sorted(spec["ways"]))] += 1
