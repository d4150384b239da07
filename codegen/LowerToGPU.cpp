// A step in sweeps ==> one CUDA kernel per phase.
#include "codegen/KernelBuilder.h"
#include "codegen/Passes.h"

namespace altgrad {
#define GEN_PASS_DEF_LOWERTOGPUPASS
#include "codegen/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

static constexpr int64_t warpLanes = 32;
static constexpr int64_t warpsPerBlock = ALTGRAD_BLOCK_THREADS / warpLanes;
static constexpr int64_t accessBytes = 16;

namespace {
class GpuLowering {
public:
  GpuLowering(StepOp step, const PhasePlan &plan, gpu::GPUModuleOp module)
      : step(step), plan(plan), builder(step.getLoc(), step.getContext()) {
    builder.setInsertionPointToEnd(&module.getBodyRegion().front());
  }
  void lower(const Phase &phase);

private:
  // One chunk on its way through a sweep.
  struct Chunk {
    SweepOp sweep;
    Value count;                      // elements
    Value vectors;                    // i1: may be accessed 16 bytes at a time
    SmallVector<Value> loads, stores; // where its streams begin
    IRMapping known;                  // scalars
    int64_t width;
  };
  using Sums = SmallVector<Value>; // per reduction, per half of the lanes

  void lowerSweep(KernelBuilder &kernel, SweepOp sweep);
  void sweepChunk(KernelBuilder &kernel, SweepOp sweep, Value index);
  Sums element(KernelBuilder &kernel, Chunk &chunk, Value from, Sums sums,
               unsigned part);
  Sums vectorAt(KernelBuilder &kernel, Chunk &chunk, Value at, Sums sums,
                unsigned part);
  Sums tailAt(KernelBuilder &kernel, Chunk &chunk, Value at, Sums sums,
              unsigned part);
  void storeCodes(KernelBuilder &kernel, Chunk &chunk, Value at,
                  ArrayRef<Value> codes, int64_t width);
  SmallVector<Value> loadCodes(KernelBuilder &kernel, Chunk &chunk, Value at,
                               Region &body, int64_t width);
  Value total(KernelBuilder &kernel, Reduction kind, ArrayRef<Value> parts);
  void lowerFold(KernelBuilder &kernel, const Phase &phase);
  Value special(StringRef name);

  StepOp step;
  const PhasePlan &plan;
  ImplicitLocOpBuilder builder;
  Value thread, block, blocks, lane, warp; // i64
};
} // namespace

Value GpuLowering::special(StringRef name) {
  Value value = LLVM::CallIntrinsicOp::create(builder, builder.getI32Type(),
                                              builder.getStringAttr(name),
                                              ValueRange{})
                    .getResult(0);
  return arith::ExtUIOp::create(builder, builder.getI64Type(), value);
}

void GpuLowering::lower(const Phase &phase) {
  OpBuilder::InsertionGuard guard(builder);
  KernelBuilder kernel(builder, step, plan, /*addressSpace=*/1);
  Type i64 = builder.getI64Type();
  SmallVector<Type> types(memberCount, kernel.pointerType());
  types[unsigned(Member::RowCount)] = types[unsigned(Member::ChunkCount)] = i64;
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(builder.getContext()), types);
  auto function =
      LLVM::LLVMFuncOp::create(builder, symbolOf(step, phase), type);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                    builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(),
                    builder.getDenseI32ArrayAttr({ALTGRAD_BLOCK_THREADS}));
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  for (unsigned i = 0; i < memberCount; ++i)
    kernel.members[i] = entry->getArgument(i);
  thread = special("llvm.nvvm.read.ptx.sreg.tid.x");
  block = special("llvm.nvvm.read.ptx.sreg.ctaid.x");
  blocks = special("llvm.nvvm.read.ptx.sreg.nctaid.x");
  Value lanes = kernel.i64(warpLanes);
  lane = arith::AndIOp::create(builder, thread, kernel.i64(warpLanes - 1));
  Value inBlock = arith::DivUIOp::create(builder, thread, lanes);
  warp = arith::AddIOp::create(
      builder, arith::MulIOp::create(builder, block, kernel.i64(warpsPerBlock)),
      inBlock);
  if (phase.kind == Phase::Sweep) {
    lowerSweep(kernel, phase.sweep);
  } else if (phase.kind == Phase::Fold) {
    lowerFold(kernel, phase);
  } else {
    Value global = arith::AddIOp::create(
        builder,
        arith::MulIOp::create(builder, block,
                              kernel.i64(ALTGRAD_BLOCK_THREADS)),
        thread);
    if (phase.domain == Domain::Once) {
      Value first = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq,
                                          global, kernel.i64(0));
      kernel.when(first, [&] { buildScalars(kernel, phase, Row{}); });
    } else {
      Value stride = arith::MulIOp::create(
          builder, blocks, kernel.i64(ALTGRAD_BLOCK_THREADS));
      kernel.loop(global, kernel.member(Member::RowCount), stride,
                  [&](Value index) {
                    buildScalars(kernel, phase, kernel.row(index));
                  });
    }
  }
  LLVM::ReturnOp::create(builder, ValueRange{});
}

//===-- Reductions ----------------------------------------------------------===//

// Adds the upper half of a vector to the lower, down to one element.
static Value joinInside(ImplicitLocOpBuilder &b, Reduction kind, Value sum) {
  int64_t width = cast<VectorType>(sum.getType()).getNumElements();
  SmallVector<Value> elements;
  for (int64_t i = 0; i < width; ++i)
    elements.push_back(
        vector::ExtractOp::create(b, sum, ArrayRef<int64_t>{i}));
  for (int64_t half = width / 2; half; half /= 2)
    for (int64_t i = 0; i < half; ++i)
      elements[i] = join(b, kind, elements[i], elements[i + half]);
  return elements[0];
}

// Every element of lane l plus that of lane l + distance; only lane 0 is used.
static Value joinDown(ImplicitLocOpBuilder &b, KernelBuilder &kernel,
                      Reduction kind, Value sum, int32_t distance) {
  auto type = cast<VectorType>(sum.getType());
  SmallVector<Value> elements;
  bool integer = type.getElementType().isInteger(32);
  StringRef name = integer ? "llvm.nvvm.shfl.sync.down.i32"
                           : "llvm.nvvm.shfl.sync.down.f32";
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    Value mine = vector::ExtractOp::create(b, sum, ArrayRef<int64_t>{i});
    Value other =
        LLVM::CallIntrinsicOp::create(
            b, type.getElementType(), b.getStringAttr(name),
            ValueRange{kernel.i32(-1), mine, kernel.i32(distance),
                       kernel.i32(warpLanes - 1)})
            .getResult(0);
    elements.push_back(join(b, kind, mine, other));
  }
  return vector::FromElementsOp::create(b, type, elements);
}

// The tree 128, 64 … 1. A part of width w holds lanes w * lane + j; two parts are
// the halves of the 256.
Value GpuLowering::total(KernelBuilder &kernel, Reduction kind,
                         ArrayRef<Value> parts) {
  Value sum = parts[0];
  if (parts.size() == 2)
    sum = join(builder, kind, parts[0], parts[1]);
  for (int32_t distance = warpLanes / 2; distance; distance /= 2)
    sum = joinDown(builder, kernel, kind, sum, distance);
  return joinInside(builder, kind, sum);
}

// A warp folds a row: lane t holds the partial sums t, t + 32, … t + 224.
void GpuLowering::lowerFold(KernelBuilder &kernel, const Phase &phase) {
  Value stride = arith::MulIOp::create(builder, blocks,
                                       kernel.i64(warpsPerBlock));
  kernel.loop(warp, kernel.member(Member::RowCount), stride, [&](Value index) {
    Row row = kernel.row(index);
    Value first = kernel.rowHeader(row, ALTGRAD_ROW_FIRST_CHUNK);
    Value count = kernel.rowHeader(row, ALTGRAD_ROW_CHUNKS);
    for (Partial partial : phase.folds) {
      Reduction kind = partial.sweep.getReduction(partial.result);
      Type scalar = partialType(kind, builder.getF32Type());
      int64_t perLane = ALTGRAD_LANES / warpLanes;
      auto loop = scf::ForOp::create(
          builder, kernel.i64(0), count, kernel.i64(ALTGRAD_LANES),
          SmallVector<Value>(perLane, neutral(builder, kind, scalar)),
          [&](OpBuilder &inner, Location loc, Value base, ValueRange sums) {
            OpBuilder::InsertionGuard guard(builder);
            builder.setInsertionPoint(inner.getInsertionBlock(),
                                      inner.getInsertionPoint());
            SmallVector<Value> next;
            for (int64_t j = 0; j < perLane; ++j) {
              Value i = arith::AddIOp::create(
                  builder, arith::AddIOp::create(builder, base, lane),
                  kernel.i64(j * warpLanes));
              Value inside = arith::CmpIOp::create(
                  builder, arith::CmpIPredicate::slt, i, count);
              auto branch = scf::IfOp::create(
                  builder, inside,
                  [&](OpBuilder &then, Location) {
                    OpBuilder::InsertionGuard inIf(builder);
                    builder.setInsertionPoint(then.getInsertionBlock(),
                                              then.getInsertionPoint());
                    Value from = kernel.chunkWord(
                        partial, arith::AddIOp::create(builder, first, i));
                    Value sum =
                        join(builder, kind, sums[j],
                             kernel.load(scalar, from, 4));
                    scf::YieldOp::create(builder, sum);
                  },
                  [&](OpBuilder &otherwise, Location at) {
                    scf::YieldOp::create(otherwise, at, sums[j]);
                  });
              next.push_back(branch.getResult(0));
            }
            scf::YieldOp::create(builder, next);
          });
      SmallVector<Value> sums(loop.getResults());
      for (int64_t half = perLane / 2; half; half /= 2)
        for (int64_t i = 0; i < half; ++i)
          sums[i] = join(builder, kind, sums[i], sums[i + half]);
      Value one = vector::FromElementsOp::create(
          builder, VectorType::get({1}, scalar), sums[0]);
      for (int32_t distance = warpLanes / 2; distance; distance /= 2)
        one = joinDown(builder, kernel, kind, one, distance);
      Value result = joinInside(builder, kind, one);
      Value isFirst = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq,
                                            lane, kernel.i64(0));
      kernel.when(isFirst, [&] {
        kernel.store(result, kernel.word({Domain::Rows, partial.rowWord}, row),
                     4);
      });
    }
  });
}

//===-- Sweeps --------------------------------------------------------------===//

void GpuLowering::lowerSweep(KernelBuilder &kernel, SweepOp sweep) {
  Value stride =
      arith::MulIOp::create(builder, blocks, kernel.i64(warpsPerBlock));
  kernel.loop(warp, kernel.member(Member::ChunkCount), stride,
              [&](Value index) { sweepChunk(kernel, sweep, index); });
}

void GpuLowering::sweepChunk(KernelBuilder &kernel, SweepOp sweep,
                             Value index) {
  Type i64 = builder.getI64Type();
  Chunk chunk;
  chunk.sweep = sweep;
  chunk.width = sweep.getWidth();
  Value entry = kernel.offset(kernel.member(Member::Chunks), index,
                              sizeof(altgrad_chunk));
  Row row = kernel.row(kernel.load(i64, entry, 8, /*invariant=*/true));
  Value first =
      kernel.load(i64, kernel.offset(entry, kernel.i64(1), 8), 8, true);
  Value numel = kernel.rowHeader(row, ALTGRAD_ROW_NUMEL);
  chunk.count = arith::MinSIOp::create(
      builder, arith::SubIOp::create(builder, numel, first),
      kernel.i64(ALTGRAD_CHUNK));
  if (Value condition = sweep.getCondition())
    chunk.count = arith::SelectOp::create(
        builder, kernel.scalar(condition, row, chunk.known), chunk.count,
        kernel.i64(0));
  for (Value value : capturedScalars(sweep))
    kernel.scalar(value, row, chunk.known);

  Value bits = kernel.i64(0);
  auto pointers = [&](OperandRange streams, SmallVector<Value> &into) {
    for (Value tensors : streams) {
      unsigned bytes =
          cast<TensorsType>(tensors.getType()).getFormat().getBytes();
      Value base = kernel.stream(tensors, row);
      bits = arith::OrIOp::create(
          builder, bits, LLVM::PtrToIntOp::create(builder, i64, base));
      into.push_back(kernel.offset(base, first, bytes));
    }
  };
  pointers(sweep.getLoads(), chunk.loads);
  pointers(sweep.getStores(), chunk.stores);
  Value low = arith::AndIOp::create(builder, bits, kernel.i64(accessBytes - 1));
  chunk.vectors = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, low,
                                        kernel.i64(0));

  // A warp covers 32 * width elements at a time; the 256 partial sums are one
  // such part, or two.
  int64_t covered = warpLanes * chunk.width;
  unsigned parts =
      sweep.getNumResults() ? std::max<int64_t>(1, ALTGRAD_LANES / covered) : 1;
  Sums initial;
  for (unsigned i = 0; i < sweep.getNumResults(); ++i) {
    Reduction kind = sweep.getReduction(i);
    Type type = partialType(
        kind, VectorType::get({chunk.width}, builder.getF32Type()));
    initial.append(parts, neutral(builder, kind, type));
  }
  auto loop = scf::ForOp::create(
      builder, kernel.i64(0), chunk.count, kernel.i64(covered * parts), initial,
      [&](OpBuilder &inner, Location loc, Value base, ValueRange carried) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPoint(inner.getInsertionBlock(),
                                  inner.getInsertionPoint());
        Sums sums(carried);
        for (unsigned part = 0; part < parts; ++part) {
          Value mine = arith::MulIOp::create(builder, lane,
                                             kernel.i64(chunk.width));
          Value from = arith::AddIOp::create(
              builder, arith::AddIOp::create(builder, base, mine),
              kernel.i64(part * covered));
          sums = element(kernel, chunk, from, sums, part);
        }
        scf::YieldOp::create(builder, sums);
      });
  Value isFirst = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, lane,
                                        kernel.i64(0));
  for (unsigned i = 0; i < sweep.getNumResults(); ++i) {
    SmallVector<Value> sums(loop.getResults().slice(i * parts, parts));
    Value result = total(kernel, sweep.getReduction(i), sums);
    kernel.when(isFirst, [&] {
      kernel.store(result,
                   kernel.chunkWord(plan.partialOf(sweep.getReduced()[i]),
                                    index),
                   4);
    });
  }
}

// The elements of one lane: as a vector where all of them exist and are aligned.
GpuLowering::Sums GpuLowering::element(KernelBuilder &kernel, Chunk &chunk,
                                       Value from, Sums sums, unsigned part) {
  Value end = arith::AddIOp::create(builder, from, kernel.i64(chunk.width));
  Value inside = arith::CmpIOp::create(builder, arith::CmpIPredicate::sle, end,
                                       chunk.count);
  Value vectors = arith::AndIOp::create(builder, inside, chunk.vectors);
  SmallVector<Type> types;
  for (Value sum : sums)
    types.push_back(sum.getType());
  auto branch = scf::IfOp::create(builder, types, vectors, /*withElse=*/true);
  auto fill = [&](Block *block, bool whole) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(block);
    Sums next = whole ? vectorAt(kernel, chunk, from, sums, part)
                      : tailAt(kernel, chunk, from, sums, part);
    scf::YieldOp::create(builder, next);
  };
  for (Region &region : branch->getRegions())
    if (region.empty())
      region.emplaceBlock();
  for (Block *block : {branch.thenBlock(), branch.elseBlock()})
    block->clear();
  fill(branch.thenBlock(), true);
  fill(branch.elseBlock(), false);
  return Sums(branch.getResults());
}

static unsigned bytesOf(Value tensors) {
  return cast<TensorsType>(tensors.getType()).getFormat().getBytes();
}

SmallVector<Value> GpuLowering::loadCodes(KernelBuilder &kernel, Chunk &chunk,
                                          Value at, Region &body,
                                          int64_t width) {
  SmallVector<Value> loaded;
  for (auto [argument, tensors, pointer] : llvm::zip(
           body.getArguments(), chunk.sweep.getLoads(), chunk.loads)) {
    unsigned bytes = bytesOf(tensors);
    unsigned alignment = width == 1 ? bytes
                                    : std::min<unsigned>(bytes * width,
                                                         accessBytes);
    loaded.push_back(kernel.load(argument.getType(),
                                 kernel.offset(pointer, at, bytes), alignment));
  }
  return loaded;
}

void GpuLowering::storeCodes(KernelBuilder &kernel, Chunk &chunk, Value at,
                             ArrayRef<Value> codes, int64_t width) {
  for (auto [code, tensors, pointer] :
       llvm::zip(codes, chunk.sweep.getStores(), chunk.stores)) {
    unsigned bytes = bytesOf(tensors);
    unsigned alignment = width == 1 ? bytes
                                    : std::min<unsigned>(bytes * width,
                                                         accessBytes);
    kernel.store(code, kernel.offset(pointer, at, bytes), alignment);
  }
}

GpuLowering::Sums GpuLowering::vectorAt(KernelBuilder &kernel, Chunk &chunk,
                                        Value at, Sums sums, unsigned part) {
  Region &body = chunk.sweep.getWide().front();
  SmallVector<Value> emitted = cloneSweepBody(
      builder, body, loadCodes(kernel, chunk, at, body, chunk.width),
      chunk.known);
  unsigned results = chunk.sweep.getNumResults();
  unsigned parts = results ? sums.size() / results : 0;
  for (unsigned i = 0; i < results; ++i) {
    Value &sum = sums[i * parts + part];
    sum = accumulate(builder, chunk.sweep.getReduction(i), sum, emitted[i]);
  }
  storeCodes(kernel, chunk, at, ArrayRef(emitted).drop_front(results),
             chunk.width);
  return sums;
}

// One element after the other; each goes to its own lane of the partial sums.
GpuLowering::Sums GpuLowering::tailAt(KernelBuilder &kernel, Chunk &chunk,
                                      Value at, Sums sums, unsigned part) {
  Value end = arith::MinSIOp::create(
      builder, arith::AddIOp::create(builder, at, kernel.i64(chunk.width)),
      chunk.count);
  unsigned results = chunk.sweep.getNumResults();
  unsigned parts = results ? sums.size() / results : 0;
  Region &body = chunk.sweep.getBody();
  auto loop = scf::ForOp::create(
      builder, at, end, kernel.i64(1), sums,
      [&](OpBuilder &inner, Location loc, Value index, ValueRange carried) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPoint(inner.getInsertionBlock(),
                                  inner.getInsertionPoint());
        SmallVector<Value> emitted = cloneSweepBody(
            builder, body, loadCodes(kernel, chunk, index, body, 1),
            chunk.known);
        Sums next(carried);
        for (unsigned i = 0; i < results; ++i) {
          Value &sum = next[i * parts + part];
          auto type = cast<VectorType>(sum.getType());
          Reduction kind = chunk.sweep.getReduction(i);
          Value wide = vector::BroadcastOp::create(
              builder,
              VectorType::get(type.getShape(), emitted[i].getType()),
              emitted[i]);
          Value added = accumulate(builder, kind, sum, wide);
          Value which = arith::TruncIOp::create(
              builder, builder.getI32Type(),
              arith::SubIOp::create(builder, index, at));
          SmallVector<int32_t> numbers =
              llvm::to_vector(llvm::seq<int32_t>(0, chunk.width));
          Value own = arith::CmpIOp::create(
              builder, arith::CmpIPredicate::eq,
              arith::ConstantOp::create(builder,
                                        builder.getI32VectorAttr(numbers)),
              vector::BroadcastOp::create(
                  builder,
                  VectorType::get(type.getShape(), builder.getI32Type()),
                  which));
          sum = arith::SelectOp::create(builder, own, added, sum);
        }
        storeCodes(kernel, chunk, index, ArrayRef(emitted).drop_front(results),
                   1);
        scf::YieldOp::create(builder, next);
      });
  return Sums(loop.getResults());
}

namespace {
struct LowerToGPU : altgrad::impl::LowerToGPUPassBase<LowerToGPU> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<StepOp> steps(module.getOps<StepOp>());
    if (steps.empty())
      return;
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto kernels =
        gpu::GPUModuleOp::create(builder, steps[0].getLoc(), "kernels");
    for (StepOp step : steps) {
      for (auto sweep : step.getBody().getOps<SweepOp>())
        if (sweep.getNumResults() &&
            sweep.getWidth() * warpLanes > ALTGRAD_LANES) {
          sweep.emitOpError() << "reduces with " << sweep.getWidth()
                              << " elements a lane, at most "
                              << ALTGRAD_LANES / warpLanes;
          return signalPassFailure();
        }
      FailureOr<PhasePlan> plan = planPhases(step);
      if (failed(plan))
        return signalPassFailure();
      GpuLowering lowering(step, *plan, kernels);
      for (const Phase &phase : plan->phases)
        lowering.lower(phase);
      step.erase();
    }
  }
};
} // namespace
