// A sweep on a GPU: a warp for a chunk, 16 bytes of every stream per access.
//
// A lane does as many neighbouring elements as fill 16 bytes of the narrowest
// stream, and computes them in strips of four. Wide streams are accessed strip by
// strip; narrow ones once, before the first strip and after the last. So a
// kernel's registers hardly depend on the formats.
#include "codegen/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

static unsigned bytesOf(Value tensors) {
  return cast<TensorsType>(tensors.getType()).getFormat().getBytes();
}

// No phase writes an `in` stream: it may come through the read-only cache.
static bool readOnly(StepOp step, Value tensors) {
  auto argument = dyn_cast<BlockArgument>(tensors);
  return argument && step.getAccess(argument) == "in";
}

// Elements per lane; with reductions a warp must not pass the 256 partial sums.
static int64_t widthOf(SweepOp sweep) {
  int64_t bytes = 4;
  for (Value tensors : sweep.getLoads())
    bytes = std::min<int64_t>(bytes, bytesOf(tensors));
  for (Value tensors : sweep.getStores())
    bytes = std::min<int64_t>(bytes, bytesOf(tensors));
  int64_t limit = sweep.getNumResults() ? ALTGRAD_LANES / warpLanes : 16;
  return std::min(accessBytes / bytes, limit);
}

void GpuLowering::lowerSweep(KernelBuilder &kernel, SweepOp sweep) {
  Value stride =
      arith::MulIOp::create(builder, blocks, kernel.i64(warpsPerBlock));
  kernel.loop(arith::AddIOp::create(builder, begin, warp), end, stride,
              [&](Value index) { sweepChunk(kernel, sweep, index); });
}

GpuLowering::Chunk GpuLowering::openChunk(KernelBuilder &kernel, SweepOp sweep,
                                          Value index) {
  Type i64 = builder.getI64Type();
  Chunk chunk;
  chunk.sweep = sweep;
  chunk.width = widthOf(sweep);
  Value entry = kernel.offset(kernel.member(Member::Chunks), index,
                              sizeof(altgrad_chunk));
  Row row = kernel.row(kernel.load(i64, entry, 8, /*invariant=*/true));
  Value first =
      kernel.load(i64, kernel.offset(entry, kernel.i64(1), 8), 8, true);
  Value numel = kernel.rowHeader(row, ALTGRAD_ROW_NUMEL);
  chunk.count = arith::TruncIOp::create(
      builder, builder.getI32Type(),
      arith::MinSIOp::create(builder,
                             arith::SubIOp::create(builder, numel, first),
                             kernel.i64(ALTGRAD_CHUNK)));
  if (Value condition = sweep.getCondition())
    chunk.count = arith::SelectOp::create(
        builder, kernel.scalar(condition, row, chunk.known), chunk.count,
        kernel.i32(0));
  for (Value value : sweep.getScalars())
    kernel.scalar(value, row, chunk.known);

  Value bits = kernel.i64(0);
  auto pointers = [&](OperandRange streams, SmallVector<Value> &into) {
    for (Value tensors : streams) {
      Value base = kernel.stream(tensors, row);
      bits = arith::OrIOp::create(
          builder, bits, LLVM::PtrToIntOp::create(builder, i64, base));
      into.push_back(kernel.offset(base, first, bytesOf(tensors)));
    }
  };
  pointers(sweep.getLoads(), chunk.loads);
  pointers(sweep.getStores(), chunk.stores);
  Value low = arith::AndIOp::create(builder, bits, kernel.i64(accessBytes - 1));
  chunk.aligned = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, low,
                                        kernel.i64(0));
  return chunk;
}

void GpuLowering::sweepChunk(KernelBuilder &kernel, SweepOp sweep,
                             Value index) {
  Chunk chunk = openChunk(kernel, sweep, index);
  int64_t covered = warpLanes * chunk.width;
  unsigned results = sweep.getNumResults();
  unsigned parts = results ? ALTGRAD_LANES / covered : 1;
  Sums initial;
  for (unsigned i = 0; i < results; ++i) {
    Reduction kind = sweep.getReduction(i);
    Type type = partialType(
        kind, VectorType::get({stripWidth}, builder.getF32Type()));
    initial.append(parts * chunk.strips(), neutral(builder, kind, type));
  }
  Value lane32 = arith::TruncIOp::create(builder, builder.getI32Type(), lane);
  Value mine = arith::MulIOp::create(builder, lane32, kernel.i32(chunk.width));
  Sums sums = kernel.loopWith(
      kernel.i32(0), chunk.count, kernel.i32(covered * parts), initial,
      [&](Value base, Sums carried) {
        Value at = arith::AddIOp::create(builder, base, mine);
        for (unsigned part = 0; part < parts; ++part)
          carried = laneAt(
              kernel, chunk,
              arith::AddIOp::create(builder, at, kernel.i32(part * covered)),
              carried, {parts, part});
        return carried;
      });
  // The tree 128, 64 … 1: parts, then lanes, then strips and their elements.
  unsigned strips = chunk.strips();
  for (unsigned i = 0; i < results; ++i) {
    Reduction kind = sweep.getReduction(i);
    SmallVector<Value> elements;
    for (unsigned strip = 0; strip < strips; ++strip) {
      Value sum = sums[i * parts * strips + strip];
      if (parts == 2)
        sum = join(builder, kind, sum, sums[(i * parts + 1) * strips + strip]);
      llvm::append_range(elements, elementsOf(joinLanes(kernel, kind, sum)));
    }
    Value total = joinElements(kind, elements);
    onFirstLane(kernel, [&] {
      kernel.store(
          total, kernel.chunkWord(plan.partialOf(sweep.getReduced()[i]), index),
          4);
    });
  }
}

// The elements of one lane: as vectors where all of them exist and are aligned.
GpuLowering::Sums GpuLowering::laneAt(KernelBuilder &kernel, Chunk &chunk,
                                      Value at, Sums sums, Place place) {
  Value end = arith::AddIOp::create(builder, at, kernel.i32(chunk.width));
  Value inside = arith::CmpIOp::create(builder, arith::CmpIPredicate::sle, end,
                                       chunk.count);
  SmallVector<Type> types;
  for (Value sum : sums)
    types.push_back(sum.getType());
  auto branch = scf::IfOp::create(
      builder, types, arith::AndIOp::create(builder, inside, chunk.aligned),
      /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  Sums fast = vectorsAt(kernel, chunk, at, sums, place);
  scf::YieldOp::create(builder, fast);
  builder.setInsertionPointToStart(branch.elseBlock());
  Sums slow = tailAt(kernel, chunk, at, sums, place);
  scf::YieldOp::create(builder, slow);
  return Sums(branch.getResults());
}

GpuLowering::Sums GpuLowering::vectorsAt(KernelBuilder &kernel, Chunk &chunk,
                                         Value at, Sums sums, Place place) {
  SweepOp sweep = chunk.sweep;
  Region &body = sweep.getWide().front();
  unsigned results = sweep.getNumResults(), strips = chunk.strips();
  auto address = [&](Value pointer, Value tensors, unsigned strip) {
    Value from = kernel.offset32(pointer, at, bytesOf(tensors));
    return kernel.offset(from, kernel.i64(strip * stripWidth),
                         bytesOf(tensors));
  };
  // Codes of a narrow stream stay packed in words of 32 bits between accesses.
  auto words = [&](Value tensors, int64_t elements) {
    return VectorType::get({elements * bytesOf(tensors) / 4},
                           builder.getI32Type());
  };
  auto narrow = [&](Value tensors) {
    return bytesOf(tensors) * stripWidth < accessBytes;
  };
  SmallVector<Value> lanes(sweep.getLoads().size());
  for (auto [index, tensors] : llvm::enumerate(sweep.getLoads()))
    if (narrow(tensors))
      lanes[index] = kernel.load(
          words(tensors, chunk.width), address(chunk.loads[index], tensors, 0),
          accessBytes, readOnly(step, tensors));

  SmallVector<SmallVector<Value>> gathered(sweep.getStores().size());
  for (unsigned strip = 0; strip < strips; ++strip) {
    SmallVector<Value> loaded;
    for (auto [index, tensors] : llvm::enumerate(sweep.getLoads())) {
      Type type = body.getArgument(index).getType();
      if (!lanes[index]) {
        loaded.push_back(kernel.load(
            type, address(chunk.loads[index], tensors, strip), accessBytes,
            readOnly(step, tensors)));
        continue;
      }
      int64_t count = words(tensors, stripWidth).getNumElements();
      SmallVector<int64_t> mask = llvm::to_vector(
          llvm::seq<int64_t>(strip * count, (strip + 1) * count));
      Value packed = vector::ShuffleOp::create(builder, lanes[index],
                                               lanes[index], mask);
      loaded.push_back(vector::BitCastOp::create(
          builder, cast<VectorType>(type), packed));
    }
    SmallVector<Value> emitted =
        cloneSweepBody(builder, body, loaded, chunk.known);
    for (unsigned i = 0; i < results; ++i) {
      Value &sum = sums[(i * place.parts + place.part) * strips + strip];
      sum = accumulate(builder, sweep.getReduction(i), sum, emitted[i]);
    }
    for (auto [index, tensors] : llvm::enumerate(sweep.getStores())) {
      Value codes = emitted[results + index];
      if (narrow(tensors))
        llvm::append_range(gathered[index],
                           elementsOf(vector::BitCastOp::create(
                               builder, words(tensors, stripWidth), codes)));
      else
        kernel.store(codes, address(chunk.stores[index], tensors, strip),
                     accessBytes);
    }
  }
  for (auto [index, tensors] : llvm::enumerate(sweep.getStores()))
    if (narrow(tensors))
      kernel.store(vector::FromElementsOp::create(
                       builder, words(tensors, chunk.width), gathered[index]),
                   address(chunk.stores[index], tensors, 0), accessBytes);
  return sums;
}

// The sum with `element` added where the strip holds element `offset` of the lane.
Value GpuLowering::ownStrip(KernelBuilder &kernel, Reduction kind, Value sum,
                            Value element, Value offset, unsigned strip) {
  auto type = cast<VectorType>(sum.getType());
  auto spread = [&](Value value) -> Value {
    return vector::BroadcastOp::create(
        builder, VectorType::get(type.getShape(), value.getType()), value);
  };
  Value added = accumulate(builder, kind, sum, spread(element));
  SmallVector<int32_t> numbers = llvm::to_vector(llvm::seq<int32_t>(
      strip * stripWidth, (strip + 1) * stripWidth));
  Value own = arith::CmpIOp::create(
      builder, arith::CmpIPredicate::eq,
      arith::ConstantOp::create(builder, builder.getI32VectorAttr(numbers)),
      spread(offset));
  return arith::SelectOp::create(builder, own, added, sum);
}

// One element after the other; each goes to its own lane of the partial sums.
GpuLowering::Sums GpuLowering::tailAt(KernelBuilder &kernel, Chunk &chunk,
                                      Value at, Sums sums, Place place) {
  SweepOp sweep = chunk.sweep;
  unsigned results = sweep.getNumResults(), strips = chunk.strips();
  Value end = arith::MinSIOp::create(
      builder, arith::AddIOp::create(builder, at, kernel.i32(chunk.width)),
      chunk.count);
  return kernel.loopWith(
      at, end, kernel.i32(1), sums, [&](Value index, Sums next) {
        SmallVector<Value> loaded;
        for (auto [argument, tensors, pointer] : llvm::zip(
                 sweep.getBody().getArguments(), sweep.getLoads(), chunk.loads))
          loaded.push_back(kernel.load(
              argument.getType(),
              kernel.offset32(pointer, index, bytesOf(tensors)),
              bytesOf(tensors), readOnly(step, tensors)));
        SmallVector<Value> emitted =
            cloneSweepBody(builder, sweep.getBody(), loaded, chunk.known);
        Value offset;
        if (results)
          offset = arith::SubIOp::create(builder, index, at);
        for (unsigned i = 0; i < results; ++i)
          for (unsigned strip = 0; strip < strips; ++strip) {
            Value &sum = next[(i * place.parts + place.part) * strips + strip];
            sum = ownStrip(kernel, sweep.getReduction(i), sum, emitted[i],
                           offset, strip);
          }
        for (auto [index2, tensors] : llvm::enumerate(sweep.getStores()))
          kernel.store(
              emitted[results + index2],
              kernel.offset32(chunk.stores[index2], index, bytesOf(tensors)),
              bytesOf(tensors));
        return next;
      });
}
