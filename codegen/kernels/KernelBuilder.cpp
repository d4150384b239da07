// Addresses, scalars and words of the workspace inside a kernel.
#include "codegen/kernels/SweepBody.h"

#include "codegen/numerics/Numerics.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace altgrad;

static constexpr unsigned wordBytes = 8;

KernelBuilder::KernelBuilder(ImplicitLocOpBuilder &builder, StepOp step,
                             const PhasePlan &plan, unsigned addressSpace)
    : builder(builder), step(step), plan(plan), layout(layoutOf(step)),
      pointer(
          LLVM::LLVMPointerType::get(builder.getContext(), addressSpace)) {}

Value KernelBuilder::i64(int64_t value) {
  return arith::ConstantIntOp::create(builder, builder.getI64Type(), value);
}

Value KernelBuilder::i32(int32_t value) {
  return arith::ConstantIntOp::create(builder, builder.getI32Type(), value);
}

Value KernelBuilder::offset(Value base, Value index, unsigned bytes) {
  Value distance = arith::MulIOp::create(builder, index, i64(bytes));
  return LLVM::GEPOp::create(builder, base.getType(), builder.getI8Type(), base,
                             ArrayRef<LLVM::GEPArg>{distance});
}

Value KernelBuilder::offset32(Value base, Value index, unsigned bytes) {
  Value distance = arith::ExtUIOp::create(
      builder, builder.getI64Type(),
      arith::MulIOp::create(builder, index, i32(bytes)));
  return LLVM::GEPOp::create(builder, base.getType(), builder.getI8Type(), base,
                             ArrayRef<LLVM::GEPArg>{distance});
}

Value KernelBuilder::load(Type type, Value from, unsigned alignment,
                          bool invariant) {
  return LLVM::LoadOp::create(builder, type, from, alignment,
                              /*isVolatile=*/false, /*isNonTemporal=*/false,
                              invariant);
}

void KernelBuilder::store(Value value, Value to, unsigned alignment) {
  LLVM::StoreOp::create(builder, value, to, alignment);
}

SmallVector<Value> KernelBuilder::loopWith(
    Value from, Value to, Value by, ValueRange initial,
    function_ref<SmallVector<Value>(Value, SmallVector<Value>)> body) {
  auto loop = scf::ForOp::create(
      builder, from, to, by, initial,
      [&](OpBuilder &inner, Location, Value index, ValueRange carried) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPoint(inner.getInsertionBlock(),
                                  inner.getInsertionPoint());
        SmallVector<Value> next = body(index, SmallVector<Value>(carried));
        scf::YieldOp::create(builder, next);
      });
  return SmallVector<Value>(loop.getResults());
}

void KernelBuilder::loop(Value from, Value to, Value by,
                         function_ref<void(Value)> body) {
  loopWith(from, to, by, {}, [&](Value index, SmallVector<Value> none) {
    body(index);
    return none;
  });
}

void KernelBuilder::when(Value condition, function_ref<void()> body) {
  auto branch = scf::IfOp::create(builder, condition, /*withElse=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
}

//===-- Rows and streams ----------------------------------------------------===//

Row KernelBuilder::row(Value index) {
  unsigned words = ALTGRAD_ROW_HEADER + layout.rowPointers;
  return {index, offset(member(Member::Rows), index, words * wordBytes)};
}

Value KernelBuilder::rowHeader(Row row, altgrad_row_word word) {
  return load(builder.getI64Type(),
              offset(row.pointer, i64(word), wordBytes), wordBytes,
              /*invariant=*/true);
}

Value KernelBuilder::stream(Value tensors, Row row) {
  if (auto spill = tensors.getDefiningOp<SpillOp>()) {
    unsigned index = llvm::find(plan.spills, spill) - plan.spills.begin();
    Value first = rowHeader(row, ALTGRAD_ROW_FIRST_CHUNK);
    Value before = arith::MulIOp::create(builder, i64(index),
                                         member(Member::ChunkCount));
    Value chunk = arith::AddIOp::create(builder, before, first);
    return offset(member(Member::Spills), chunk,
                  ALTGRAD_CHUNK * sizeof(float));
  }
  return load(pointer, argumentPointer(cast<BlockArgument>(tensors), row),
              wordBytes, /*invariant=*/true);
}

// Where the pointer to an argument's memory lies.
Value KernelBuilder::argumentPointer(BlockArgument argument, Row row) {
  const Binding &binding = layout.bindings[argument.getArgNumber()];
  auto table = [&](Member which, Value index, unsigned width) {
    Value entry = arith::AddIOp::create(
        builder, arith::MulIOp::create(builder, index, i64(width)),
        i64(binding.slot));
    return offset(member(which), entry, wordBytes);
  };
  if (binding.isStream && step.getAccess(argument) == "in")
    return table(Member::Inputs, row.index, layout.inputs);
  if (!binding.isStream && step.getScope(argument) == Scope::Step)
    return offset(member(Member::Scalars), i64(binding.slot), wordBytes);
  if (!binding.isStream && step.getScope(argument) == Scope::Group)
    return table(Member::Groups, rowHeader(row, ALTGRAD_ROW_GROUP),
                 layout.groupScalars);
  return offset(row.pointer, i64(ALTGRAD_ROW_HEADER + binding.slot),
                wordBytes);
}

Value KernelBuilder::chunkWord(const Partial &partial, Value chunk) {
  Value before = arith::MulIOp::create(builder, i64(partial.chunkWord),
                                       member(Member::ChunkCount));
  return offset(member(Member::ChunkWords),
                arith::AddIOp::create(builder, before, chunk),
                sizeof(uint32_t));
}

Value KernelBuilder::word(Slot slot, Row row) {
  if (slot.domain == Domain::Once)
    return offset(member(Member::StepWords), i64(slot.index), wordBytes);
  Value before =
      arith::MulIOp::create(builder, row.index, i64(plan.rowWords));
  return offset(member(Member::RowWords),
                arith::AddIOp::create(builder, before, i64(slot.index)),
                wordBytes);
}

//===-- Scalars -------------------------------------------------------------===//

Value KernelBuilder::loadWord(Type type, Value from) {
  if (!type.isInteger(1))
    return load(type, from, type.getIntOrFloatBitWidth() / 8);
  Value word = load(builder.getI32Type(), from, 4);
  return arith::CmpIOp::create(builder, arith::CmpIPredicate::ne, word, i32(0));
}

void KernelBuilder::storeWord(Value value, Value to) {
  if (value.getType().isInteger(1))
    value = arith::ExtUIOp::create(builder, builder.getI32Type(), value);
  store(value, to, value.getType().getIntOrFloatBitWidth() / 8);
}

Value KernelBuilder::scalar(Value value, Row row, IRMapping &known) {
  if (Value have = known.lookupOrNull(value))
    return have;
  Value here;
  if (auto constant = value.getDefiningOp<arith::ConstantOp>())
    here = builder.clone(*constant)->getResult(0);
  else if (std::optional<altgrad_row_word> held = headerWordOf(value))
    here = rowHeader(row, *held);
  else if (auto argument = dyn_cast<BlockArgument>(value))
    here = loadWord(value.getType(),
                    load(pointer, argumentPointer(argument, row), wordBytes));
  else
    here = loadWord(value.getType(), word(plan.slots.lookup(value), row));
  known.map(value, here);
  return here;
}

void KernelBuilder::writeArgument(Value value, BlockArgument argument,
                                  Row row) {
  if (isa<FloatType>(value.getType()))
    value = canonicalNan(builder, value);
  storeWord(value, load(pointer, argumentPointer(argument, row), wordBytes));
}

void altgrad::buildScalars(KernelBuilder &kernel, const Phase &phase,
                           Row row) {
  IRMapping known;
  if (phase.domain == Domain::Once)
    buildStepFolds(kernel, phase, known);
  for (Operation *op : phase.ops) {
    for (Value operand : op->getOperands())
      kernel.scalar(operand, row, known);
    kernel.builder.clone(*op, known);
    for (Value result : op->getResults())
      if (auto slot = kernel.plan.slots.find(result);
          slot != kernel.plan.slots.end())
        kernel.storeWord(known.lookup(result),
                         kernel.word(slot->second, row));
  }
  // All values are read before the first is written.
  for (const ScalarWrite &write : phase.writes) {
    kernel.scalar(write.value, row, known);
    if (write.condition)
      kernel.scalar(write.condition, row, known);
  }
  for (const ScalarWrite &write : phase.writes) {
    auto store = [&] {
      kernel.writeArgument(known.lookup(write.value), write.target, row);
    };
    if (write.condition)
      kernel.when(known.lookup(write.condition), store);
    else
      store();
  }
}

//===-- Reductions ----------------------------------------------------------===//

Type altgrad::partialType(Reduction kind, Type element) {
  Type scalar = kind == Reduction::And
                    ? Type(IntegerType::get(element.getContext(), 32))
                    : Float32Type::get(element.getContext());
  if (auto vector = dyn_cast<VectorType>(element))
    return VectorType::get(vector.getShape(), scalar);
  return scalar;
}

Value altgrad::neutral(ImplicitLocOpBuilder &builder, Reduction kind,
                       Type type) {
  TypedAttr scalar;
  if (kind == Reduction::And)
    scalar = builder.getI32IntegerAttr(-1);
  else
    scalar = builder.getF32FloatAttr(
        kind == Reduction::Max ? -std::numeric_limits<float>::infinity() : 0.f);
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(
        builder, DenseElementsAttr::get(vector, Attribute(scalar)));
  return arith::ConstantOp::create(builder, scalar);
}

Value altgrad::accumulate(ImplicitLocOpBuilder &builder, Reduction kind,
                          Value partial, Value element) {
  if (kind == Reduction::SumSq)
    return math::FmaOp::create(builder, element, element, partial);
  if (kind == Reduction::And)
    element = arith::ExtSIOp::create(builder, partial.getType(), element);
  return join(builder, kind, partial, element);
}

Value altgrad::join(ImplicitLocOpBuilder &builder, Reduction kind, Value a,
                    Value b) {
  switch (kind) {
  case Reduction::Add:
  case Reduction::SumSq:
    return arith::AddFOp::create(builder, a, b);
  case Reduction::Max:
    return arith::MaximumFOp::create(builder, a, b);
  case Reduction::And:
    return arith::AndIOp::create(builder, a, b);
  }
  llvm_unreachable("unknown reduction");
}

// The sum with a row's share, if the row is of the partial's set.
static Value joinRow(KernelBuilder &kernel, const Partial &partial, Value sum,
                     Value index) {
  ImplicitLocOpBuilder &builder = kernel.builder;
  auto joined = [&]() -> Value {
    SweepOp sweep = partial.sweep;
    Value word = kernel.load(
        sum.getType(),
        kernel.word({Domain::Rows, partial.rowWord}, Row{index, {}}), 4);
    return join(builder, sweep.getReduction(partial.result), sum, word);
  };
  if (kernel.plan.sets.count() == 1)
    return joined();
  Value set = kernel.rowHeader(kernel.row(index), ALTGRAD_ROW_SET);
  Value wanted = kernel.i64(kernel.plan.sets.of(partial.sweep));
  Value own = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, set,
                                    wanted);
  auto branch = scf::IfOp::create(builder, TypeRange{sum.getType()}, own,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(builder, joined());
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, sum);
  return branch.getResult(0);
}

void altgrad::buildStepFolds(KernelBuilder &kernel, const Phase &phase,
                             IRMapping &known) {
  ImplicitLocOpBuilder &builder = kernel.builder;
  for (const Partial &partial : phase.folds) {
    SweepOp sweep = partial.sweep;
    Reduction kind = sweep.getReduction(partial.result);
    Value result = sweep.getReduced()[partial.result];
    Type type = partialType(kind, result.getType());
    // In order: this sum has no other shape.
    Value total = kernel.loopWith(
        kernel.i64(0), kernel.member(Member::RowCount), kernel.i64(1),
        neutral(builder, kind, type),
        [&](Value index, SmallVector<Value> sum) -> SmallVector<Value> {
          return {joinRow(kernel, partial, sum[0], index)};
        })[0];
    if (kind == Reduction::And)
      total = arith::CmpIOp::create(builder, arith::CmpIPredicate::ne, total,
                                    kernel.i32(0));
    known.map(result, total);
    if (auto slot = kernel.plan.slots.find(result);
        slot != kernel.plan.slots.end())
      kernel.storeWord(total, kernel.word(slot->second, Row{}));
  }
}

std::string altgrad::symbolOf(StepOp step, const Phase &phase) {
  return ("altgrad_" + step.getSymName() + "_" + phase.name).str();
}
