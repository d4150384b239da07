//===-- Phases: what one launch does -----------------------------------------===//

#ifndef ALTGRAD_PHASEOPS_TD
#define ALTGRAD_PHASEOPS_TD

include "dialect/MatrixOps.td"

// After planning, a step is a list of phases. A value that two phases share waits in
// a word of the workspace between them: one of the step, of each tensor's row, or of
// each chunk.

def Altgrad_PhaseOp : Altgrad_Op<"phase", [SingleBlock, NoTerminator, OpAsmOpInterface,
    DeclareOpInterfaceMethods<Altgrad_PhaseWork, ["getPhaseKind", "getItem", "getReads", "getWrites",
      "getFlops", "startsLaunch", "endsLaunch", "getWorkers", "getBlock", "getTileRows"]>,
    HasParent<"::altgrad::StepOp">]> {
  let summary = "the work of one launch, written for one item";
  let description = [{
    The domain says what an item is: `chunks` are the chunks of tensors, `rows` are tensors,
    and `once` is the whole step. In a step that reduces over units, a row is a unit
    of a tensor. A phase of chunks or rows covers the items of one set, or of all sets
    if it has no `set`.

    The body holds the work of one item in order: it reads or loads scalars, computes with them,
    keeps values for later phases, and writes scalars to memory. A `sweep` makes the phase
    a pass over memory, `fold` adds the chunks of a tensor, and `total` adds the tensors
    of the step. `multiply` makes it one of products, which are done in their order for each tensor.

    After a phase with `exchange`, the totals that it keeps are this device's share, and the
    folds are the share of this device's slices. They may be combined with those of other
    devices, in place, before the next phase runs.

    `altgrad-fit-resources` writes what a CUDA block has of shared memory to `kernel_resources`.

    ```mlir
    phase @once1 once {
      %sum = total sumsq row 0 : f32
      %root = math.sqrt %sum : f32
      workspace_store %root in step 0 : f32
      write %root to %norm : f32
    }
    ```

    Constraints:

    - (phase_c1) a sweep is in a phase of chunks, a fold in a phase of rows, and a total in
      a phase that runs once;
    - (phase_c2) a phase of chunks has one sweep, or one followed by a sweep over the tiles that it stored;
    - (phase_c3) the lists and scalars that a phase reads and writes are of its set, or of none;
    - (phase_c4) only a phase that runs once or has folds has an exchange;
    - (phase_c5) the set of a phase has lists;
    - (phase_c6) either all folds of a phase are `over tensor`, or none is, and all are of the same chunks;
    - (phase_c7) a phase that runs once reads, writes, loads and keeps nothing of a
      tensor or a group, and asks for no tag and no extent;
    - (phase_c8) what the sweep of a phase reduces is kept in a word of a chunk;
    - (phase_c9) a phase with products of matrices has nothing else;
    - (phase_c10) a scalar of the signature is read before it is written, in this phase or an earlier one;
    - (phase_c11) in a step over units, a phase of rows writes no scalar `per_tensor` that it reads;
    - (phase_c12) the phases of a step have different names, from which those of kernels are made.
  }];
  let arguments = (ins SymbolNameAttr:$name, Altgrad_DomainAttr:$domain,
                       OptionalAttr<I64Attr>:$set, UnitAttr:$exchange,
                       OptionalAttr<DictionaryAttr>:$kernel_resources);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name `` $domain (`set` $set^)? (`exchange` $exchange^)? $body attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    static ::llvm::StringRef getDefaultDialect() { return "altgrad"; }
    /// The sweep of a phase of chunks; null: it has none.
    SweepOp getSweep();
    /// What the phase is for: its sweep, or its first fold or total; null: scalars.
    PhaseWork getMain();
    /// How many operations compute scalars.
    unsigned countScalars();
    template <typename OpType> unsigned count() {
      return ::llvm::range_size(getBody().getOps<OpType>());
    }
  }];
}

// An operation that only a phase has.
class Altgrad_PhasePart<string mnemonic, list<string> answers, list<Trait> traits = []>
    : Altgrad_Op<mnemonic, !listconcat(traits, [HasParent<"::altgrad::PhaseOp">,
        DeclareOpInterfaceMethods<Altgrad_PhaseWork, answers>])>;

def Altgrad_ReadOp : Altgrad_PhasePart<"read", ["getReads"], [SameOperandsAndResultType, MemoryEffects<[MemRead]>]> {
  let summary = "read a scalar of the signature from memory";
  let description = [{
    The scalar is that of the step, of the item's group or of the item's tensor.

    ```mlir
    %x = altgrad.read %lr : f64
    ```

    Constraints:

    - (read_c1) the operand is an argument of the step.
  }];
  let arguments = (ins AnyTypeOf<[F64, F32, I64]>:$scalar);
  let results = (outs AnyTypeOf<[F64, F32, I64]>:$value);
  let assemblyFormat = "$scalar attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Altgrad_WriteOp : Altgrad_PhasePart<"write", ["getWrites"],
    [AllTypesMatch<["value", "target"]>, MemoryEffects<[MemWrite]>]> {
  let summary = "write a scalar of the signature to memory";
  let description = [{
    If there is a condition and it is false, no byte changes. A NaN is written as the
    canonical NaN.

    ```mlir
    altgrad.write %t1 to %t if %finite : i64
    ```

    Constraints:

    - (write_c1) the target is an argument of the step and its access is not `in`.
  }];
  let arguments = (ins AnyTypeOf<[F64, F32, I64]>:$value,
                       AnyTypeOf<[F64, F32, I64]>:$target, Optional<I1>:$condition);
  let assemblyFormat = "$value `to` $target (`if` $condition^)? attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Altgrad_WorkspaceLoadOp : Altgrad_PhasePart<"workspace_load", ["getReads"], [MemoryEffects<[MemRead]>]> {
  let summary = "a value that an earlier phase has kept";
  let description = [{
    `row` and `step` name a word of the item's row or of the step. `tensor` names a word of the
    first row of the item's tensor; it differs from `row` where rows are units.

    ```mlir
    %x = altgrad.workspace_load row 3 : f32
    ```

    Constraints:

    - (workspace_load_c1) an earlier phase of the step keeps a value in this word; for `tensor` in
      this word of a row;
    - (workspace_load_c2) that value has the type of the result.
  }];
  let arguments = (ins Altgrad_SpaceAttr:$space, I64Attr:$word);
  let results = (outs AnyTypeOf<[F64, F32, I64, I32, I1]>:$value);
  let assemblyFormat = "`` $space $word attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Altgrad_WorkspaceStoreOp : Altgrad_PhasePart<"workspace_store", ["getWrites"], [MemoryEffects<[MemWrite]>]> {
  let summary = "put a value into a word of the workspace";
  let description = [{
    A word of the step exists once, a word of a row once for each row, and a word of a
    chunk once for each chunk. A word of a chunk has 32 bits, the others 64.

    ```mlir
    altgrad.workspace_store %x in row 3 : f32
    ```

    Constraints:

    - (workspace_store_c1) the results of a sweep are kept in a chunk, and nothing else is;
    - (workspace_store_c2) nothing is kept in `tensor`, whose words are those of a row.
  }];
  let arguments = (ins AnyTypeOf<[F64, F32, I64, I32, I1]>:$value,
                       Altgrad_SpaceAttr:$space, I64Attr:$word);
  let assemblyFormat = "$value `in` `` $space $word attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Altgrad_FoldOp : Altgrad_PhasePart<"fold", ["getPhaseKind", "getItem", "getReads", "getWorkers"]> {
  let summary = "combine the partial sums of a tensor's chunks";
  let description = [{
    The order is that of `reduce`: chunk i belongs to lane i mod 256, then the lanes are added
    as a tree: 128 pairs, 64 pairs, … 1. An `and` gives a mask of 32 ones or 32 zeros.

    Where rows are units, the chunks are those of the row's unit. `over tensor` combines
    those of all units of a tensor for the tensor's first row; the words of its other
    rows hold nothing. `row` combines a word of each row of the tensor in the same order. `of row_squares` and
    `of column_squares` combine the chunks of a tensor's square.

    ```mlir
    %sum = altgrad.fold sumsq chunk 0 : f32
    ```

    Constraints:

    - (fold_c1) an `and` gives an i32, the other reductions an f32;
    - (fold_c2) the sweep of an earlier phase keeps in this word what it reduces in this way;
    - (fold_c3) a fold of words of rows is over the tensor, and an earlier phase keeps an f32 in this word.
  }];
  let arguments = (ins Altgrad_ReductionAttr:$reduction, I64Attr:$word,
                       UnitAttr:$tensor, UnitAttr:$rows,
                       DefaultValuedAttr<Altgrad_WalkAttr, "::altgrad::Walk::Chunks">:$walk);
  let results = (outs AnyTypeOf<[F32, I32]>:$value);
  let assemblyFormat = [{
    `` $reduction (`row` $rows^):(`chunk`)? $word (`of` `` $walk^)? (`over` `tensor` $tensor^)? attr-dict
    `:` type($value)
  }];
  let hasVerifier = 1;
}

def Altgrad_TotalOp : Altgrad_PhasePart<"total", ["getPhaseKind", "getItem", "getShare"]> {
  let summary = "combine the sums of a set's tensors in their order";
  let description = [{
    Where rows are units, `of tensors` combines the words of the first rows of tensors. `as` names a rule's sum, which
    the shares of the same name on other devices and ranks join.

    ```mlir
    %sum = altgrad.total sumsq row 0 set 1 as "rule.0" : f32
    ```

    Constraints:

    - (total_c1) an `and` gives an i1, the other reductions an f32;
    - (total_c2) an earlier phase keeps a fold of this kind in this word of a row.
  }];
  let arguments = (ins Altgrad_ReductionAttr:$reduction, I64Attr:$word,
                       OptionalAttr<I64Attr>:$set, UnitAttr:$tensors, OptionalAttr<StrAttr>:$sum);
  let results = (outs AnyTypeOf<[F32, I1]>:$value);
  let assemblyFormat = [{
    `` $reduction `row` $word (`of` `tensors` $tensors^)? (`set` $set^)? (`as` $sum^)? attr-dict `:` type($value)
  }];
  let hasVerifier = 1;
}

#endif // ALTGRAD_PHASEOPS_TD
