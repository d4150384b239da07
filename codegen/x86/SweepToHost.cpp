// A sweep on a host: a chunk after the other, as vectors and then element by element;
// block by block where elements of a block exchange values.
#include "codegen/common/FastPathGuard.h"
#include "codegen/common/PackedCodes.h"
#include "codegen/x86/HostLowering.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace altgrad;

void HostLowering::lowerSweep(SweepOp sweep, Value begin, Value end) {
  SweepOp tiles = sweep.getTiles();
  SmallVector<Lanes> lanes;
  for (unsigned i = 0; i < sweep.getNumResults(); ++i)
    lanes.push_back(
        makeLanes(sweep.getReduction(i), sweep.getChunkWord(i),
                  isOrdered(sumsByRows(sweep) ? getFoldKind(sweep.getReduction(i)) : sweep.getReduction(i))));
  ahead =
      kernel.load(builder.getI64Type(), LLVM::AddressOfOp::create(builder, kernel.pointerType(), prefetchVariable), 8);
  allocateDraws(sweep);
  std::optional<Bf16PairSweep> words;
  if (!exchangesInBlocks(sweep) && !getStages(sweep.getBody()).empty())
    words.emplace(kernel, sweep, target.cpu, ahead);
  SmallVector<BlockBody, 0> bodies;
  if (exchangesInBlocks(sweep))
    for (Region *body : {&sweep.getBody(), &sweep.getWide().front()})
      bodies.emplace_back(kernel, sweep, *body);
  if (tiles || sweep.goesOverTiles()) {
    std::optional<HostTile> work;
    if (tiles)
      work.emplace(makeTile(tiles));
    kernel.loop(begin, end, kernel.i64(1),
                [&](Value tile) { sweepTile(sweep, work ? &*work : nullptr, tile, bodies); });
  } else {
    kernel.loop(begin, end, kernel.i64(1),
                [&](Value chunk) { sweepChunk(sweep, chunk, lanes, bodies, words ? &*words : nullptr); });
  }
}

void HostLowering::sweepChunk(SweepOp sweep, Value chunk, ArrayRef<Lanes> lanes, ArrayRef<BlockBody> bodies,
                              Bf16PairSweep *words) {
  Type i64 = builder.getI64Type();
  Value entry = kernel.offset(kernel.member(Member::Chunks), chunk, sizeof(altgrad_chunk));
  Row row = kernel.row(kernel.load(i64, entry, 8));
  Value first = kernel.load(i64, kernel.offset(entry, kernel.i64(1), 8), 8);
  Value numel = kernel.rowHeader(row, ALTGRAD_ROW_NUMEL);
  Value count = builder.minSigned(builder.sub(numel, first), kernel.i64(ALTGRAD_CHUNK));
  HostChunk work{sweep, lanes};
  ScalarLowering scalars(kernel, row);
  scalars.lowerFor(sweep, count);
  work.known = scalars.known;
  work.count = count;

  if (usesIndex(sweep) || usesDraws(sweep))
    work.base = builder.add(kernel.rowHeader(row, ALTGRAD_ROW_OFFSET), first);
  auto pointers = [&](OperandRange streams) {
    SmallVector<Value> all;
    for (Value tensors : streams)
      all.push_back(elementAt(kernel, tensors, kernel.stream(tensors, row), first));
    return all;
  };
  work.loads = pointers(sweep.getLoads());
  drawAll(work, row);
  work.stores = pointers(sweep.getStores());
  bool byRows = sumsByRows(sweep);
  if (!byRows)
    for (const Lanes &one : lanes)
      clear(one);

  int64_t width = sweep.getWidth();
  if (!bodies.empty()) {
    blocks(work, bodies, count);
  } else {
    Value whole = builder.bitAnd(count, kernel.i64(words ? -words->elementsAtOnce() : -width));
    Value done = kernel.i64(0);
    if (byRows) {
      done = builder.bitAnd(count, kernel.i64(-ALTGRAD_LANES));
      rows(work, done);
    }
    if (words)
      words->lower(whole, work);
    else
      elements(work, sweep.getWide().front(), width, done, whole);
    elements(work, sweep.getBody(), 1, whole, count);
  }
  for (const Lanes &one : lanes)
    kernel.store(total(one), kernel.chunkWord(one.chunkWord, chunk), laneBytes);
}

void altgrad::prefetchAhead(KernelBuilder &kernel, Value at, Value ahead) {
  LLVM::Prefetch::create(kernel.builder, kernel.offset(at, ahead, 1),
                         /*rw=*/0, /*hint=*/3, /*cache=*/1);
}

// LLVM makes an `and` a masked store, which AMD has in microcode.
Value altgrad::both(CodeBuilder &builder, Value before, Value value) {
  value = builder.extendSigned(before.getType(), value);
  return builder.maxSigned(before, value);
}

// The codes of the `width` elements from `index` on. One stream alone the CPU
// follows best without being asked: a Zen 4 loses up to a third by prefetching.
SmallVector<Value> HostLowering::load(HostChunk &chunk, Region &body, int64_t width, Value index, bool prefetch) {
  SmallVector<Value> loaded;
  for (auto [argument, stream, pointer] : llvm::zip(body.getArguments(), chunk.sweep.getLoads(), chunk.loads)) {
    Type type = argument.getType();
    if (Value one = chunk.shared.lookupOrNull(stream)) {
      loaded.push_back(width == 1 ? one : builder.broadcast(type, one));
      continue;
    }
    Value at = elementAt(kernel, stream, pointer, index);
    if (prefetch && chunk.loads.size() > 1)
      prefetchAhead(kernel, at, ahead);
    loaded.push_back(width == 1 ? loadCode(kernel, stream, type, at, index)
                                : loadCodes(kernel, stream, cast<VectorType>(type), at, getBytes(stream)));
  }
  return loaded;
}

Value HostLowering::getIndex(HostChunk &chunk, Value index) {
  return chunk.base ? builder.add(chunk.base, index) : Value();
}

// By the fast-path body where there is one and its guard holds.
SmallVector<Value> HostLowering::compute(HostChunk &chunk, Region &body, int64_t width, Value index) {
  SmallVector<Value> loaded = load(chunk, body, width, index, width > 1), draws = takeDraws(chunk, body, index);
  Value global = getIndex(chunk, index);
  auto exact = [&] { return cloneSweepBody(builder, body, {loaded, chunk.known, global, 1, draws}); };
  Region *quick = chunk.sweep.getFastPath();
  if (!quick || &body == &chunk.sweep.getBody())
    return exact();
  Guard guard(builder, chunk.sweep.getWidth());
  SmallVector<Value> arguments(loaded);
  guard.appendTo(arguments);
  SmallVector<Value> fast = cloneSweepBody(builder, *quick, {arguments, chunk.known, global, 1, draws});
  guard.takeFrom(fast);
  return SmallVector<Value>(guard.choose(fast, exact));
}

// One where `flag` holds, else -0, which no sum is changed by and LLVM knows for such: it adds by masks.
static Value addend(CodeBuilder &builder, Value flag, Type type) {
  return builder.select(flag, builder.f32(1, type), builder.f32(-0.f, type));
}

// What a body gives as its value `which`: to the sums, or to a stream. Elements of a
// block store the same value to the same place.
void HostLowering::emit(HostChunk &chunk, size_t which, int64_t width, Value index, Value value) {
  if (which < chunk.lanes.size()) {
    const Lanes &one = chunk.lanes[which];
    Value at = lane(one, index);
    unsigned alignment = width * laneBytes;
    Value before = kernel.load(partialType(one.kind, value.getType()), at, alignment);
    Value sum = one.kind == Reduction::And     ? both(builder, before, value)
                : one.kind == Reduction::Count ? builder.addF(before, addend(builder, value, before.getType()))
                                               : accumulate(builder, one.kind, before, value);
    return kernel.store(sum, at, alignment);
  }
  Value stream = chunk.sweep.getStores()[which - chunk.lanes.size()];
  if (getBlock(stream) > 1 && width > 1)
    value = builder.element(value, 0);
  Value base = chunk.stores[which - chunk.lanes.size()];
  Value at = elementAt(kernel, stream, base, index);
  if (width > 1 && getBlock(stream) == 1)
    return storeCodes(kernel, stream, value, at, getBytes(stream));
  Value keepsNext; // which is read before it is written
  if (llvm::is_contained(chunk.sweep.getLoads(), stream)) {
    Value next = builder.add(index, kernel.i64(1));
    keepsNext = builder.notEqual(next, chunk.count);
  }
  storeCode(kernel, stream, value, at, index, keepsNext);
}

// `width` elements at a time from `from` to `to`.
void HostLowering::elements(HostChunk &chunk, Region &body, int64_t width, Value from, Value to) {
  kernel.loop(from, to, kernel.i64(width), [&](Value index) {
    for (auto [which, value] : llvm::enumerate(compute(chunk, body, width, index)))
      emit(chunk, which, width, index, value);
  });
}
