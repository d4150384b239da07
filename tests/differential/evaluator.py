"""Walks a step as written, operation by operation, on NumPy arrays: the independent reference."""

import re

import numpy as np

import blocks
import formats
import optext
import rounding
import softmath as soft
from arithmetic import ARITHMETIC, TYPES, constant, predicate
from ruleoptions import names_of, stored_states
from values import Reals, Rows, Tensors, Value


class Evaluator:
    """`rule_of(name)` gives a rule that the module does not hold."""

    def __init__(self, module, rule_of):
        self.rules = {op.strings("sym_name")[0]: op for op in module if op.name == "altgrad.rule"}
        self.step = next(op for op in module if op.name == "altgrad.step")
        self.rule_of = rule_of
        said = self.step.said()
        accesses, roles, names, scopes, sets, _ = zip(*said) if said else [()] * 6
        self.sets = [None if s == "-1" else int(s) for s in sets]
        kinds = ["history" if role == "history" else kind for role, (_, kind) in zip(roles, self.step.body.arguments)]
        self.signature = list(zip(names, accesses, scopes, kinds))

    def run(self, rows, streams, scalars):
        """New codes by stream and new scalars by name; what is not written stays as it was."""
        self.rows = rows
        self.before = {**streams, **scalars}
        self.values = {}
        for (name, access, scope, kind), (ssa, _), which in zip(
                self.signature, self.step.body.arguments, self.sets):
            if kind.startswith("!altgrad.tensors"):
                block = self.rows.block_of(which, *formats.of_list(kind)[1:])
                self.values[ssa] = Tensors(streams[name][block], which)
            else:
                self.values[ssa] = Value(self._spread(scalars[name], scope), False, which)
        with np.errstate(all="ignore"):
            for op in self.step.body.ops[:-1]:
                self._do(op, self.values)
            return self._commit(self.step.body.ops[-1])

    def _spread(self, array, scope):
        """One entry per tensor."""
        if scope == "tensor":
            return array[np.array(self.rows.tensor, int)]
        if scope == "group":
            return array[np.array(self.rows.group, int)]
        return np.repeat(array, len(self.rows.numel), axis=0)

    def _do(self, op, values):
        inputs = [values[o] for o in op.operands]
        if op.name in ARITHMETIC or op.name == "arith.constant":
            outputs = [self._arithmetic(op, inputs)]
        else:
            outputs = getattr(self, "_" + op.name.removeprefix("altgrad."))(op, *inputs)
        values.update(zip(op.results, outputs))

    def _arithmetic(self, op, inputs):
        element = any(v.element for v in inputs)
        which = _one_set(inputs)
        arrays = [self._entries(v, which) if element else v.array for v in inputs]
        target = TYPES[op.result_types[0]]
        if op.name == "arith.constant":
            out = np.repeat(constant(op), len(self.rows.numel))
        elif op.name == "arith.cmpf":
            out = soft.compare_floats(predicate(op), *arrays)
        elif op.name == "arith.cmpi":
            out = soft.compare_integers(predicate(op), *arrays)
        elif op.name in ("arith.truncf", "arith.extf", "arith.sitofp"):
            out = arrays[0].astype(target)
        else:
            out = ARITHMETIC[op.name](*arrays)
        if out.dtype != target:
            raise TypeError(f"{op.name} gave {out.dtype}, wanted {op.result_types[0]}")
        return Value(out, element, which)

    def _entries(self, value, which):
        """One for each element of a set."""
        if not value.element:
            return value.array[self.rows.of(which)]
        return value.array if value.set == which else value.array[self.rows.among(which)]

    #===-- Tensors and their elements ---------------------------------------===#

    def _index(self, op):
        """Of the elements of all rows: no list has said yet of which set."""
        each = [offset + np.arange(numel) for offset, numel in zip(self.rows.offset, self.rows.numel)]
        return [Value(np.concatenate([np.empty(0, np.int64), *each]).astype(np.int64), True)]

    def _tag(self, op):
        return [Value(np.array(self.rows.tag, np.int64), False)]

    def _dim(self, op):
        which = ("rows", "columns", "batch", "unit").index(re.search(r"dimension (\w+)", op.attributes["dimension"])[1])
        if which == 3:
            return [Value(np.array(self.rows.numel, np.int64), False)]
        each = map(self.rows.extents, range(len(self.rows.numel)))
        return [Value(np.array([extents[which] for extents in each], np.int64), False)]

    def _draw(self, op, seed, step):
        """Of the elements of all rows, as the index."""
        index, row = self._index(op)[0].array, self.rows.of(None)
        tags, store = np.array(self.rows.tag, np.int64)[row], int(op.attributes["store"].split(" ")[0])
        drawn = rounding.draws(index, (seed.array if len(seed.array) else [0])[0], step.array[row], tags, store,
                               int(op.result_types[0][1:]))
        return [Value(drawn, True)]

    #===-- Lists ------------------------------------------------------------===#

    def _format(self, kind):
        return formats.of_list(kind)[0]

    def _decode(self, kind, tensors):
        return formats.decode(self._format(kind), tensors.codes)

    def _elements(self, reals):
        """Each element multiplied once by the pending factor."""
        if reals.factor is None:
            return reals.elements
        return reals.elements * reals.factor.array[self.rows.of(reals.set)]

    def _dequantize(self, op, tensors):
        return [Reals(self._decode(op.types[0], tensors), None, tensors.set)]

    def _join(self, op, upper, lower):
        return [Reals(formats.join(upper.codes, lower.codes), None, upper.set)]

    def _split(self, op, reals):
        return [Tensors(codes, reals.set) for codes in formats.split(self._elements(reals), self._format(op.result_types[1]))]

    def _unscale(self, op, tensors, factor):
        numbers = self._decode(op.types[0], tensors)
        finite = self._fold("and", np.isfinite(numbers), "step", tensors.set)
        return [Reals(numbers, factor, tensors.set), finite]

    def _clip_by_global_norm(self, op, *inputs):
        *lists, bound = inputs
        total = None
        for reals in lists:
            part = self._fold("sumsq", self._elements(reals), "step", reals.set).array
            total = part if total is None else total + part
        norm = np.sqrt(total)
        one = np.ones_like(norm)
        coefficient = soft.minimum(bound.array / (norm + np.float32(1e-6)), one)
        clipped = []
        for reals in lists:
            factor = coefficient if reals.factor is None else reals.factor.array * coefficient
            clipped.append(Reals(reals.elements, Value(factor, False), reals.set))
        return [*clipped, Value(norm, False)]

    def _clip_coefficient(self, op, norm, bound):
        """torch: `bound / norm` is the reciprocal times the bound, and every result is of the norm's dtype."""
        one, rounded = np.ones_like(norm.array), lambda numbers: numbers
        if "torch" not in op.attributes:
            ratio = bound.array / (norm.array + np.float32(1e-6))
        else:
            form = formats.of_list(op.attributes["torch"].replace("#altgrad.format", "!altgrad.tensors"))[0]
            rounded = lambda numbers: formats.decode(form, formats.encode(form, numbers))
            ratio = rounded(rounded(one / rounded(norm.array + np.float32(1e-6))) * bound.array)
        return [Value(soft.minimum(ratio, one), False, norm.set)]

    def _round(self, op, number):
        form = formats.of_list(op.attributes["format"].replace("#altgrad.format", "!altgrad.tensors"))[0]
        return [Value(formats.decode(form, formats.encode(form, number.array)), False, number.set)]

    def _across(self, op, number):
        """Over the tensors of a set, in their order."""
        each = number.array[self.rows.own(number.set)]
        total = soft.reduce_step("add", list(each)) if len(each) else np.float32(0)
        return [Value(np.full(len(self.rows.numel), total, np.float32), False)]

    def _percentile(self, op, history, newest, percent):
        """By sorting, one row at a time."""
        found = []
        for (place, *kept), new, share in zip(history.array, newest.array, percent.array):
            if np.isfinite(new):
                kept[int(place)] = new
            kept = np.sort([x for x in kept if np.isfinite(x) and not np.signbit(x)])
            index = int(share * np.float32(len(kept)) / np.float32(100))
            found.append(kept[min(index, len(kept) - 1)] if len(kept) else 0)
        return [Value(np.array(found, np.float32), False, newest.set)]

    def _update_loss_scale(self, op, *inputs):
        """By the words of definitions 3.1 and 3.4, one Python number at a time: all rows have the same."""
        scale, found, tracker, interval, left, times, growth, backoff, least, most = [v.array[0] for v in inputs]
        boostr = "boostr" in op.attributes["variant"]
        if found:
            tracker, left = 0, left - 1
            if left <= 0:
                scale = np.float32(max(float(scale) * float(backoff), float(least)))
        elif tracker + 1 == interval or (boostr and tracker + 1 > interval):
            more = np.float32(min(float(scale) * float(growth), float(most)))
            tracker, left = 0, times
            scale = more if boostr or np.isfinite(more) else scale
        else:
            tracker += 1
        count = len(self.rows.numel)
        return [Value(np.full(count, scale, np.float32), False), Value(np.full(count, tracker, np.int64), False),
                Value(np.full(count, left, np.int64), False)]

    def _norm(self, op, *lists):
        """Shares of lists joined in order: magnitudes and squares are added, the largest stays."""
        kind = re.search(r"norm_kind (\w+)", op.attributes["kind"])[1]
        scope = re.search(r"scope (\w+)", op.attributes["scope"])[1]
        total = None
        for reals in lists:
            elements = self._elements(reals)
            elements = elements if kind == "l2" else np.abs(elements)
            name = {"l1": "add", "l2": "sumsq", "linf": "max"}[kind]
            part = self._fold(name, elements, scope, reals.set).array
            if kind == "linf":
                part = soft.maximum(np.zeros_like(part), part)
            if total is None:
                total = part
            else:
                total = soft.maximum(total, part) if kind == "linf" else total + part
        total = np.sqrt(total) if kind == "l2" else total
        return [Value(total, False, lists[0].set if scope == "tensor" else None)]

    def _scale(self, op, reals, factor):
        pending = factor.array if reals.factor is None else reals.factor.array * factor.array
        return [Reals(reals.elements, Value(pending, False), reals.set)]

    def _quantize(self, op, reals, draw=None):
        overflow = re.search(r"overflow<(\w+)>", op.attributes["overflow"])[1]
        form, numbers = self._format(op.result_types[0]), self._elements(reals)
        if "nearest_even" in op.attributes["rounding"]:
            return [Tensors(formats.encode(form, numbers, overflow), reals.set)]
        drawn = None if draw is None else self._entries(draw, reals.set)
        return [Tensors(rounding.encode(form, numbers, overflow, drawn), reals.set)]

    def _element(self, op, reals):
        return [Value(self._elements(reals), True, reals.set)]

    def _binade(self, op, value):
        """By the exponent that frexp gives; 0, infinities and NaN have none."""
        x = np.abs(value.array)
        power = np.ldexp(np.float32(1), np.frexp(x)[1] - 1).astype(np.float32)
        return [Value(np.where(np.isfinite(x) & (x != 0), power, x), value.element, value.set)]

    def _scaled_quotient(self, op, number, scale, inverse):
        with np.errstate(all="ignore"):
            near = number.array * inverse.array
            rest = soft.fma(-near, scale.array, number.array)
            return [Value(soft.fma(rest, inverse.array, near), True, number.set)]

    def _recode(self, op, tensors):
        return [tensors]

    def _load(self, op, tensors):
        return [Value(tensors.codes, True, tensors.set)]

    def _advance_code(self, op, code, change, draw=None):
        form = formats.of_list(op.attributes["format"].replace("#altgrad.format", "!altgrad.tensors"))[0]
        codes, changes, drawn = (v and self._entries(v, code.set) for v in (code, change, draw))
        moved = rounding.move(form, codes, changes, drawn, "nearest_even" in op.attributes["rounding"])
        return [Value(each, True, code.set) for each in moved]

    def _collect(self, op, value, factor=None):
        if op.result_types[0] != "!altgrad.reals":
            return [Tensors(value.array.copy(), value.set)]
        return [Reals(value.array, factor, value.set)]

    def _reduce(self, op, value):
        kind = re.search(r"reduction (\w+)", op.attributes["reduction"])[1]
        over = re.search(r"block<(\w+)>", op.attributes["over"])[1]
        array = np.abs(value.array) if kind == "absmax" else value.array
        if kind == "count":
            kind, array = "add", np.float32(array)
        kind = kind.removeprefix("abs")
        if over in ("unit", "tensor", "step"):
            return [self._fold(kind, array, over, value.set)]
        return [Value(blocks.reduced(kind, array, self.rows, over, value.set), True, value.set)]

    def _fold(self, kind, elements, scope, which):
        """Over the tensors of a set, each with the chunks of all its units; the result of the whole step is every row's."""
        own, count = self.rows.own(which), len(self.rows.numel)
        ends = np.cumsum(np.array(self.rows.numel, int)[own])
        chunks = [soft.reduce_chunks(kind, part) for part in np.split(elements, ends)[:len(own)]]
        if scope == "tensor":
            chunks = self.rows.joined(chunks, own)
        each = [soft.fold_chunks(kind, part) for part in chunks]
        if scope == "step":
            return Value(np.full(count, soft.reduce_step(kind, each), elements.dtype), False)
        out = np.zeros(count, elements.dtype)
        out[own] = each
        return Value(out, False, which)

    #===-- Update -----------------------------------------------------------===#

    def _update(self, op, *inputs):
        name = op.attributes["rule"].removeprefix("@")
        rule = self.rules.get(name) or self.rule_of(name)
        chosen = re.findall(r'"(\w+)"', op.attributes["options"])
        roles = rule.roles()
        stored = stored_states(rule, chosen)
        param, grad, *rest = inputs
        param_set = param.set
        kept, hypers = rest[:len(stored)], rest[len(stored):]
        steps = hypers[roles.count("hyper"):]
        valued = steps[roles.count("step"):]
        feed = {"param": [param], "grad": [grad], "state": list(kept), "hyper": hypers,
                "step": steps, "value": valued[:] or [param]}
        values = {}
        for (_, role, name, _, _, default), (ssa, _) in zip(rule.said(), rule.body.arguments):
            if role == "option":
                on = name in chosen or default == "true"
                values[ssa] = Value(np.repeat(on, len(self.rows.numel)), False)
            elif role == "state" and name not in stored:
                values[ssa] = Value(np.full_like(param.elements, np.nan), True, param.set)
            else:
                given = feed[role].pop(0)
                values[ssa] = (Value(self._elements(given), True, given.set)
                               if isinstance(given, Reals) else given)
        for inner in rule.body.ops[:-1]:
            self._do(inner, values)
        param, *states = rule.body.ops[-1].operands
        wanted = [param] + [s for s, n in zip(states, names_of(rule, "state")) if n in stored]
        elements = [self._as_elements(values[v], param_set) for v in wanted]
        if valued:
            elements[0] = self._change(rule, values)
        return [Reals(each, None, param_set) for each in elements]

    def _change(self, rule, values):
        """What the rule adds to its parameter last where its options have chosen, or the difference."""
        roles, arguments = rule.roles(), rule.body.arguments
        options = [ssa for role, (ssa, _) in zip(roles, arguments) if role == "option"]
        old, new = arguments[roles.index("param")][0], rule.body.ops[-1].operands[0]
        made = {result: inner for inner in rule.body.ops for result in inner.results}
        while (last := made.get(new)) and last.name == "arith.select" and last.operands[0] in options:
            new = last.operands[1 if values[last.operands[0]].array.all() else 2]
        if last and last.name == "arith.subf" and last.operands[0] == old:
            return -values[last.operands[1]].array
        if last and last.name == "arith.addf" and old in last.operands:
            return values[last.operands[1 - list(last.operands).index(old)]].array
        return values[new].array - values[old].array

    def _as_elements(self, value, which):
        return self._entries(value, which)

    #===-- Commit -----------------------------------------------------------===#

    def _commit(self, op):
        condition, always, always_to, values, targets = op.segments()
        after = {name: array.copy() for name, array in self.before.items()}
        every = np.ones(len(self.rows.numel), bool)
        decided = self.values[condition[0][0]] if condition else Value(every, False)
        position = {ssa: i for i, (ssa, _) in enumerate(self.step.body.arguments)}
        for pairs, where in ((zip(always, always_to), Value(every, False)),
                             (zip(values, targets), decided)):
            for (value, _), (target, _) in pairs:
                name, _, scope, kind = self.signature[position[target]]
                self._write(name, after[name], self.values[value], scope, kind, where, self.sets[position[target]])
        return after

    def _write(self, name, memory, value, scope, kind, where, given):
        """`given`: the set of the target, whose rows alone a constant is written to."""
        if isinstance(value, Tensors) or isinstance(value, Reals):
            codes = (value.codes if isinstance(value, Tensors)
                     else formats.encode(self._format(kind), self._elements(value)))
            which = self.rows.streams.get(name, 0)
            codes = self._entries(Value(codes, True, value.set), which)
            _, firsts = np.unique(self.rows.block_of(which, *formats.of_list(kind)[1:]), return_index=True)
            codes, allowed = codes[firsts], where.array[self.rows.of(which)][firsts]
            memory[allowed] = codes[allowed]
            return
        new = value.array
        if kind == "history":
            rows = [0] if scope == "step" else self.rows.firsts(_one_set([value, where], given))
            for row in rows:
                if where.array[row] and np.isfinite(new[row]):
                    place = int(memory[row, 0])
                    memory[row, [0, place + 1]] = (place + 1) % 100, new[row]
            return
        if new.dtype.kind == "f":
            new = np.where(np.isnan(new), new.dtype.type(np.nan), new)
        if scope == "step":
            memory[where.array[:1]] = new[:1][where.array[:1]]
        else:
            allowed = np.zeros(len(new), bool)
            allowed[self.rows.firsts(_one_set([value, where], given))] = True
            memory[allowed & where.array] = new[allowed & where.array]


def _one_set(values, given=None):
    sets = {v.set for v in values} - {None}
    if len(sets) > 1:
        raise ValueError(f"values of sets {sets} meet")
    return sets.pop() if sets else given
