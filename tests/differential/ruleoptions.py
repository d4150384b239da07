"""What the options of a rule decide, from its text."""


def names_of(rule, role):
    return [n for _, r, n, *_ in rule.said() if r == role]


def stored_states(rule, chosen):
    """The states that the options do not leave unchanged."""
    names = [ssa for ssa, _ in rule.body.arguments]
    known = {}
    for ssa, (_, role, name, _, _, default) in zip(names, rule.said()):
        if role == "option":
            known[ssa] = name in chosen or default == "true"
    same = {}
    logic = {"arith.andi": "and", "arith.ori": "or", "arith.xori": "xor"}
    for op in rule.body.ops[:-1]:
        if op.name == "arith.constant" and op.result_types == ["i1"]:
            known[op.results[0]] = op.attributes["value"].startswith("true")
        elif op.name in logic and op.result_types == ["i1"]:
            a, b = (known.get(o) for o in op.operands)
            decided = _logic(logic[op.name], a, b)
            if decided is not None:
                known[op.results[0]] = decided
        elif op.name == "arith.select" and op.operands[0] in known:
            same[op.results[0]] = op.operands[1 if known[op.operands[0]] else 2]
    stored = []
    states = [(ssa, n) for ssa, (_, r, n, *_) in zip(names, rule.said()) if r == "state"]
    for (ssa, name), value in zip(states, rule.body.ops[-1].operands[1:]):
        while value in same:
            value = same[value]
        if value != ssa:
            stored.append(name)
    return stored


def _logic(kind, a, b):
    if kind == "and" and (a is False or b is False):
        return False
    if kind == "or" and (a is True or b is True):
        return True
    if a is None or b is None:
        return None
    return {"and": a and b, "or": a or b, "xor": a != b}[kind]
