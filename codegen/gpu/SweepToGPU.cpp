// A sweep on a GPU: a block for a chunk, or a warp where sums are to be kept
// apart; 16 bytes of every stream per access.
//
// A thread does as many neighbouring elements as fill 16 bytes of the narrowest stream, two at a time. A stream is
// loaded where the codes of its last access run out and stored where 16 bytes are complete; in between, codes are
// packed in words of 32 bits. So a kernel's registers hardly depend on the formats.
#include "codegen/common/PackedCodes.h"
#include "codegen/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

static bool storesInBlocks(SweepOp sweep) {
  return llvm::any_of(sweep.getStores(), [](Value stream) { return getBlock(stream) > 1; });
}

// Numbers exist as f32 only between their first and last use: a code takes
// fewer registers. The back ends keep this order.
static void shortenLives(Block &body) {
  auto order = [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); };
  SmallVector<Operation *> decodes, encodes;
  for (Operation &op : body)
    if (isa<DecodeOp, JoinCodesOp>(op))
      decodes.push_back(&op);
    else if (isa<EncodeOp, UpperCodeOp, LowerCodeOp>(op))
      encodes.push_back(&op);
  for (Operation *decode : decodes) {
    SmallVector<Operation *> users(decode->getUsers());
    if (!users.empty())
      decode->moveBefore(*llvm::min_element(users, order));
  }
  for (Operation *encode : encodes) {
    Value number = encode->getOperand(0);
    Operation *last = number.getDefiningOp();
    if (!last || last->getBlock() != &body) // a uniform number
      continue;
    for (Value draw : llvm::drop_begin(encode->getOperands()))
      if (Operation *drawn = draw.getDefiningOp(); drawn && order(last, drawn))
        last = drawn;
    for (Operation *user : number.getUsers())
      if (!isa<EncodeOp, UpperCodeOp, LowerCodeOp, EmitOp, StageOp>(user) && order(last, user))
        last = user;
    if (llvm::none_of(encode->getUsers(), [&](Operation *user) { return order(user, last); }))
      encode->moveAfter(last);
  }
}

void GpuLowering::lowerSweep(SweepOp sweep) {
  for (Region &wide : sweep.getWide())
    shortenLives(wide.front());
  auto phase = sweep->getParentOfType<PhaseOp>();
  bool byBlock = getThreads(sweep) == ALTGRAD_BLOCK_THREADS;
  Value first = byBlock ? block : warp, stride = byBlock ? blocks : warps;
  std::optional<TileMemory> tile;
  if (SweepOp tiles = sweep.getTiles())
    tile.emplace(makeTile(tiles));
  else if (sweep.goesOverTiles())
    tile.emplace(TileMemory{TileSweep(sweep)});
  auto body = [&](Value index) {
    if (tile)
      sweepTile(sweep, *tile, index);
    else
      sweepChunk(sweep, index);
  };
  if (!runsBackwards(phase)) {
    kernel.loop(builder.add(begin, first), end, stride, body);
  } else {
    Value beyond = builder.sub(end, first);
    kernel.loopDown(builder.sub(beyond, kernel.i64(1)), begin, stride, body);
  }
  waitForLaunches(phase); // who had no chunk
}

GpuLowering::Chunk GpuLowering::openChunk(SweepOp sweep, Value index) {
  Type i64 = builder.getI64Type(), i32 = builder.getI32Type();
  Chunk chunk{sweep, ThreadSums(kernel, sweep, *shared), getThreads(sweep), getWidth(sweep, target.gpu)};
  auto phase = sweep->getParentOfType<PhaseOp>();
  kernel.readsTablesEarly = mustWait(phase);
  auto [row, first] = kernel.locateChunk(index);
  Value numel = kernel.rowHeader(row, ALTGRAD_ROW_NUMEL);
  Value count = builder.truncate(i32, builder.minSigned(builder.sub(numel, first), kernel.i64(ALTGRAD_CHUNK)));
  for (Value tensors : getStreams(sweep))
    if (!chunk.pointers.contains(tensors))
      chunk.pointers[tensors] = kernel.stream(tensors, row);
  prefetchRow(chunk, first, builder.sub(numel, kernel.i64(1)));
  waitForLaunches(phase);
  kernel.readsTablesEarly = false;
  ScalarLowering scalars(kernel, row);
  scalars.lowerFor(sweep, count);
  chunk.known = scalars.known;
  if (usesDraws(sweep))
    chunk.tag = kernel.rowHeader(row, ALTGRAD_ROW_TAG);
  if (usesIndex(sweep) || chunk.tag)
    chunk.end =
        builder.add(builder.add(kernel.rowHeader(row, ALTGRAD_ROW_OFFSET), first), builder.extendSigned(i64, count));

  Value mine = builder.mul(chunk.threads == warpThreads ? inWarp : inBlock, kernel.i64(chunk.width));
  Value mine32 = builder.truncate(i32, mine);
  chunk.count = count;
  chunk.from = builder.sub(mine32, count);
  if (exchangesInBlocks(sweep) || storesInBlocks(sweep)) {
    chunk.start = builder.sub(kernel.i32(0), count);
    chunk.mine = mine32;
  }
  Value element = builder.add(first, mine);
  chunk.aligned = builder.constBool();
  if (chunk.tag) { // a thread's elements are those of whole calls
    Value offset = builder.bitAnd(kernel.rowHeader(row, ALTGRAD_ROW_OFFSET), kernel.i64(drawnTogether - 1));
    chunk.aligned = builder.equal(offset, kernel.i64(0));
  }
  for (auto &[tensors, pointer] : chunk.pointers) {
    if (getBlock(tensors) == 1) // others are moved value by value
      chunk.aligned = builder.bitAnd(chunk.aligned, isAligned(chunk, tensors, pointer));
    pointer = elementAt(kernel, tensors, pointer, element);
    // Or LLVM would add their common part in each round, to other registers.
    if (!sweep.getFastPath())
      pointer = launderPointer(pointer);
  }
  allocateDraws(chunk);
  storeScalars(chunk);
  allocateKept(chunk);
  return chunk;
}

// Goes on from `from` as far as rounds of `elements` begin before `to`; gives where it is then. The pointers walk with
// the thread: one register pair for each stream.
Value GpuLowering::walk(Chunk &chunk, Carried &sums, Value from, Value to, int32_t elements,
                        function_ref<Carried(Value, Carried)> body) {
  size_t count = sums.size();
  auto take = [&](Carried carried) {
    for (auto [stream, pointer] : llvm::zip(chunk.pointers, ArrayRef<Value>(carried).drop_front(count + 1)))
      stream.second = pointer;
    sums = carried;
    sums.truncate(count);
    return carried[count];
  };
  auto all = [&](Value at) {
    Carried carried = sums;
    carried.push_back(at);
    for (auto &[tensors, pointer] : chunk.pointers)
      carried.push_back(pointer);
    return carried;
  };
  auto goesOn = [&](Value at) -> Value { return builder.less(at, to); };
  auto next = [&](Value tensors, Value pointer) {
    return kernel.offset(pointer, kernel.i64(elements / sharedBy(tensors)), getBytes(tensors));
  };
  if (!chunk.sweep.getFastPath())
    return take(kernel.loopWith(from, to, kernel.i32(elements), all(from), [&](Value at, Carried carried) {
      take(carried);
      sums = body(at, sums);
      for (auto &[tensors, pointer] : chunk.pointers)
        pointer = next(tensors, pointer);
      return all(builder.add(at, kernel.i32(elements)));
    }));
  // Where a round has branches, ptxas moves pointers before it stores by the old ones and then keeps both, unless they
  // are moved behind the jump that ends the last round.
  return take(ifElse(goesOn(from), all(from), [&](Carried initial) {
    TypeRange types = ValueRange(initial).getTypes();
    SmallVector<Location> places(types.size(), builder.getLoc());
    auto loop = scf::WhileOp::create(builder, types, initial);
    OpBuilder::InsertionGuard guard(builder);
    auto open = [&](Region &region) {
      Block *block = builder.createBlock(&region, {}, types, places);
      return take(Carried(block->getArguments()));
    };
    Value at = open(loop.getBefore());
    sums = body(at, sums);
    at = builder.add(at, kernel.i32(elements));
    scf::ConditionOp::create(builder, goesOn(at), all(at));
    at = open(loop.getAfter());
    for (auto &[tensors, pointer] : chunk.pointers)
      pointer = launderPointer(next(tensors, pointer));
    scf::YieldOp::create(builder, all(at));
    builder.setInsertionPointAfter(loop);
    at = take(Carried(loop.getResults()));
    for (auto &[tensors, pointer] : chunk.pointers)
      pointer = next(tensors, pointer);
    return all(at);
  }));
}

void GpuLowering::sweepChunk(SweepOp sweep, Value index) {
  Chunk chunk = openChunk(sweep, index);
  int32_t covered = chunk.threads * chunk.width;
  unsigned results = sweep.getNumResults(), parts = countParts(chunk);
  Carried sums = chunk.sums.clear();
  if (!chunk.exchanges())
    sweepAlone(chunk, index, sums);
  else
    walk(chunk, sums, chunk.start, kernel.i32(0), covered * parts, [&](Value at, Carried carried) {
      at = builder.add(at, chunk.mine);
      for (unsigned part = 0; part < parts; ++part)
        carried = threadInBlock(chunk, at, carried, part);
      return carried;
    });
  for (unsigned i = 0; i < results; ++i) {
    Value total = reduceTotal(chunk, sums, i);
    onFirstThread([&] { kernel.store(total, kernel.chunkWord(sweep.getChunkWord(i), index), 4); });
  }
}

// Vectors as far as they go, then elements.
void GpuLowering::sweepAlone(Chunk &chunk, Value index, Carried &sums) {
  int64_t rows = rowsAhead(chunk), covered = chunk.threads * chunk.width;
  unsigned parts = countParts(chunk);
  Value at = vectorsFrom(chunk);
  if (rows > 1) { // whole groups of them, none where a stream is not aligned
    Value whole = builder.bitAnd(chunk.count, kernel.i32(-int32_t(rows * ALTGRAD_LANES)));
    whole = builder.select(chunk.aligned, whole, kernel.i32(0));
    at = walk(chunk, sums, at, builder.add(at, whole), rows * ALTGRAD_LANES,
              [&](Value at, Carried carried) { return rowsAt(chunk, at, carried, rows); });
  }
  at = walk(chunk, sums, at, kernel.i32(1 - int32_t(chunk.width)), covered * parts, [&](Value at, Carried carried) {
    carried = vectorsAt(chunk, at, carried, 0);
    for (unsigned part = 1; part < parts; ++part) { // if all of its elements exist
      Value inside = builder.lessEqual(at, kernel.i32(-int32_t((part * warpThreads + 1) * chunk.width)));
      carried = ifElse(inside, carried, [&](Carried carried) { return vectorsAt(chunk, at, carried, part); });
    }
    return carried;
  });
  Value any = builder.notEqual(builder.bitAnd(at, leftOver(chunk)), kernel.i32(0));
  sums = ifElse(any, sums, [&](Carried carried) {
    sums = carried;
    Value from = elementsFrom(chunk, at);
    reopen(chunk, index, from);
    walk(chunk, sums, from, kernel.i32(0), elementsOfGroup(chunk) * chunk.threads,
         [&](Value at, Carried carried) { return groupAt(chunk, at, carried); });
    return sums;
  });
}

Value GpuLowering::address(Chunk &chunk, Value tensors, int64_t element) {
  return kernel.offset(chunk.pointers.lookup(tensors), kernel.i64(element / sharedBy(tensors)), getBytes(tensors));
}

Value GpuLowering::getIndex(Chunk &chunk, Value at, int64_t further) {
  if (!chunk.end)
    return {};
  Value back = builder.extendSigned(builder.getI64Type(), at);
  Value end = chunk.fixed ? fixedAt(chunk, 0) : chunk.end;
  return builder.add(builder.add(end, back), kernel.i64(further));
}

GpuLowering::Carried GpuLowering::vectorsAt(Chunk &chunk, Value at, Carried carried, unsigned part) {
  SweepOp sweep = chunk.sweep;
  unsigned results = sweep.getNumResults(), vectors = chunk.vectors();
  unsigned guarded = vectorsOfGuard(sweep, target.gpu);
  int64_t first = part * warpThreads * chunk.width;
  int64_t width = sweep.getWidth();
  auto period = [&](Value tensors) { return getPeriod(sweep, tensors, target.gpu); };
  SmallVector<Value> words(sweep.getLoads().size());
  loadAhead(chunk, first);
  chunk.drawnFrom = -1;
  SmallVector<SmallVector<Value>> ready;
  SmallVector<SmallVector<Value>> codes(sweep.getStores().size());
  SmallVector<SmallVector<Value>> packed(sweep.getStores().size());
  for (unsigned number = 0; number < vectors; ++number) {
    if (number % guarded == 0)
      ready = vectorsUnderGuard(chunk, at, first, number, words);
    SmallVector<Value> &emitted = ready[number % guarded];
    for (unsigned i = 0; i < results; ++i)
      chunk.sums.add(carried, i, (part * vectors + number) % (countParts(chunk) * vectors), emitted[i]);
    int64_t element = (number + 1) * width;
    for (auto [index, tensors] : llvm::enumerate(sweep.getStores())) {
      Value code = emitted[results + index];
      if (getBlock(tensors) > 1) {
        if (!number)
          kernel.when(leads(chunk, getBlock(tensors)), [&, stream = tensors] {
            kernel.store(builder.element(code, 0), address(chunk, stream, first), getBytes(stream));
          });
        continue;
      }
      codes[index].push_back(code);
      if (element * getBits(tensors) % 32)
        continue;
      llvm::append_range(packed[index], pack(tensors, codes[index]));
      codes[index].clear();
      if (element % period(tensors))
        continue;
      Value all = builder.fromElements(VectorType::get({int64_t(packed[index].size())}, packed[index][0].getType()),
                                       packed[index]);
      packed[index].clear();
      kernel.store(all, address(chunk, tensors, first + element - period(tensors)),
                   period(tensors) * getBits(tensors) / 8);
    }
  }
  chunk.ahead.clear();
  return carried;
}

//===-- Rows ahead ------------------------------------------------------------===//

// All loads of a chunk's rows come before the first of their elements is used: a warp has no other work while it waits
// for memory.
// Whether a body needs its registers for itself: it divides, or decodes bytes.
static bool isLong(SweepOp sweep) {
  auto isByte = [](Value tensors) { return getBytes(tensors) == 1; };
  return llvm::any_of(sweep.getLoads(), isByte) ||
         llvm::any_of(sweep.getBody().front(), [](Operation &op) { return isa<arith::DivFOp, math::SqrtOp>(op); });
}

// A row is 256 elements, eight of every thread.
int64_t GpuLowering::rowsAhead(const Chunk &chunk) {
  constexpr int64_t perThread = ALTGRAD_LANES / warpThreads;
  SweepOp sweep = chunk.sweep;
  if (!sweep.getNumResults() || chunk.exchanges() || !sweep.getStores().empty() || sweep.getLoads().empty() ||
      isLong(sweep))
    return 1;
  int64_t bytes = 0;
  for (Value tensors : sweep.getLoads())
    bytes += perThread * getBytes(tensors);
  int64_t rows = std::min<int64_t>(target.gpu.bytesAhead / bytes, target.gpu.rowsAhead);
  return rows > 1 ? int64_t(llvm::bit_floor(uint64_t(rows))) : 1;
}

GpuLowering::Carried GpuLowering::rowsAt(Chunk &chunk, Value at, Carried carried, int64_t rows) {
  llvm::BitVector every(chunk.sweep.getLoads().size(), true);
  SmallVector<SmallVector<SmallVector<Value>>> ahead; // of each part of each row
  for (int64_t part = 0; part < rows * countParts(chunk); ++part)
    ahead.push_back(accessesFrom(chunk, part * warpThreads * chunk.width, every));
  for (auto [part, words] : llvm::enumerate(ahead)) {
    chunk.ahead = words;
    carried = vectorsAt(chunk, at, carried, part);
  }
  return carried;
}
