// A sweep on a GPU: a block for a chunk, or a warp where sums are to be kept
// apart; 16 bytes of every stream per access.
//
// A thread does as many neighbouring elements as fill 16 bytes of the narrowest
// stream, two at a time. A stream is loaded where the codes of its last access
// run out and stored where 16 bytes are complete; in between, codes are packed
// in words of 32 bits. So a kernel's registers hardly depend on the formats.
#include "codegen/common/PackedCodes.h"
#include "codegen/gpu/GpuLowering.h"
#include "codegen/numerics/BookTable.h"
#include "codegen/numerics/Philox.h"
#include "codegen/common/Launches.h"

using namespace mlir;
using namespace altgrad;

// Elements per thread; with reductions a warp must not pass the 256 lanes. No
// block is of more elements than a warp does at a time, and no call of the
// generator serves more elements than a thread.
static int64_t widthOf(SweepOp sweep, int64_t accessBytes) {
  int64_t bytes = 4;
  for (OperandRange streams : {sweep.getLoads(), sweep.getStores()})
    for (Value tensors : streams)
      if (blockOf(tensors) == 1)
        bytes = std::min<int64_t>(bytes, bytesOf(tensors));
  int64_t width = accessBytes / bytes;
  if (usesDraws(sweep))
    width = std::max<int64_t>(width, drawnTogether);
  if (sweep.getNumResults())
    width = std::min<int64_t>(width, ALTGRAD_LANES / warpThreads);
  return std::max<int64_t>(width, sweep.getBlock() / warpThreads);
}

static bool storesInBlocks(SweepOp sweep) {
  return llvm::any_of(sweep.getStores(),
                      [](Value stream) { return blockOf(stream) > 1; });
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
      if (!isa<EncodeOp, UpperCodeOp, LowerCodeOp, EmitOp>(user) &&
          order(last, user))
        last = user;
    if (llvm::none_of(encode->getUsers(),
                      [&](Operation *user) { return order(user, last); }))
      encode->moveAfter(last);
  }
}

void GpuLowering::lowerSweep(KernelBuilder &kernel, SweepOp sweep) {
  for (Region &wide : sweep.getWide())
    shortenLives(wide.front());
  auto phase = sweep->getParentOfType<PhaseOp>();
  bool byBlock = threadsOf(sweep) == ALTGRAD_BLOCK_THREADS;
  Value first = byBlock ? block : warp, stride = byBlock ? blocks : warps;
  shared->reserve(bookBytes(sweep));
  ThreadMemory memory(kernel, inBlock, *shared, target.gpu);
  std::optional<Columns> cut;
  std::optional<TileMemory> tile;
  if (sweep.goesOverTiles())
    tile.emplace(makeTile(kernel, cut.emplace(sweep)));
  auto body = [&](Value index) {
    if (tile)
      sweepTile(kernel, memory, sweep, *tile, index);
    else
      sweepChunk(kernel, memory, sweep, index);
  };
  if (!runsBackwards(phase)) {
    kernel.loop(arith::AddIOp::create(builder, begin, first), end, stride,
                body);
  } else {
    Value beyond = arith::SubIOp::create(builder, end, first);
    kernel.loopDown(arith::SubIOp::create(builder, beyond, kernel.i64(1)),
                    begin, stride, body);
  }
  waitForLaunches(phase); // who had no chunk
}

// The row of a chunk, and its first element there.
std::pair<Row, Value> GpuLowering::placeOf(KernelBuilder &kernel, Value index) {
  Type i64 = builder.getI64Type();
  Value entry = kernel.offset(kernel.member(Member::Chunks), index,
                              sizeof(altgrad_chunk));
  Value row = kernel.loadTable(i64, entry);
  Value first = kernel.loadTable(i64, kernel.offset(entry, kernel.i64(1), 8));
  return {kernel.row(row), first};
}

GpuLowering::Chunk GpuLowering::openChunk(KernelBuilder &kernel,
                                          ThreadMemory &memory, SweepOp sweep,
                                          Value index) {
  Type i64 = builder.getI64Type(), i32 = builder.getI32Type();
  Chunk chunk{sweep, ThreadSums(kernel, sweep, memory), threadsOf(sweep),
              widthOf(sweep, target.gpu.accessBytes)};
  auto phase = sweep->getParentOfType<PhaseOp>();
  kernel.readsTablesEarly = waits(phase);
  auto [row, first] = placeOf(kernel, index);
  Value numel = kernel.rowHeader(row, ALTGRAD_ROW_NUMEL);
  Value count = arith::TruncIOp::create(
      builder, i32,
      arith::MinSIOp::create(builder,
                             arith::SubIOp::create(builder, numel, first),
                             kernel.i64(ALTGRAD_CHUNK)));
  for (OperandRange streams : {sweep.getLoads(), sweep.getStores()})
    for (Value tensors : streams)
      if (!chunk.pointers.contains(tensors))
        chunk.pointers[tensors] = kernel.stream(tensors, row);
  waitForLaunches(phase);
  kernel.readsTablesEarly = false;
  ScalarLowering scalars(kernel, row);
  scalars.lowerBefore(sweep, [&](Value condition) {
    count = arith::SelectOp::create(builder, condition, count, kernel.i32(0));
  });
  scalars.lowerInside(sweep);
  chunk.known = scalars.known;
  if (usesDraws(sweep))
    chunk.tag = kernel.rowHeader(row, ALTGRAD_ROW_TAG);
  if (usesIndex(sweep) || chunk.tag)
    chunk.end = arith::AddIOp::create(
        builder,
        arith::AddIOp::create(
            builder, kernel.rowHeader(row, ALTGRAD_ROW_OFFSET), first),
        arith::ExtSIOp::create(builder, i64, count));

  Value mine = arith::MulIOp::create(
      builder, chunk.threads == warpThreads ? inWarp : inBlock,
      kernel.i64(chunk.width));
  Value mine32 = arith::TruncIOp::create(builder, i32, mine);
  chunk.count = count;
  chunk.from = arith::SubIOp::create(builder, mine32, count);
  if (exchangesInBlocks(sweep) || storesInBlocks(sweep)) {
    chunk.start = arith::SubIOp::create(builder, kernel.i32(0), count);
    chunk.mine = mine32;
  }
  Value element = arith::AddIOp::create(builder, first, mine);
  chunk.aligned = arith::ConstantIntOp::create(builder, true, 1);
  if (chunk.tag) { // a thread's elements are those of whole calls
    Value offset = arith::AndIOp::create(
        builder, kernel.rowHeader(row, ALTGRAD_ROW_OFFSET),
        kernel.i64(drawnTogether - 1));
    chunk.aligned = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq,
                                          offset, kernel.i64(0));
  }
  for (auto &[tensors, pointer] : chunk.pointers) {
    if (blockOf(tensors) == 1) // others are moved value by value
      chunk.aligned = arith::AndIOp::create(
          builder, chunk.aligned, isAligned(kernel, chunk, tensors, pointer));
    pointer = elementAt(kernel, tensors, pointer, element);
    // Or LLVM would add their common part in each round, to other registers.
    if (!sweep.getQuick())
      pointer = opaque(pointer);
  }
  allocateDraws(kernel, chunk, memory);
  storeScalars(kernel, chunk, memory);
  allocateKept(kernel, chunk, memory);
  resident = residentOf(chunk);
  return chunk;
}

// Goes on from `from` as far as rounds of `elements` begin before `to`; gives
// where it is then. The pointers walk with the thread: one register pair for
// each stream.
Value GpuLowering::walk(KernelBuilder &kernel, Chunk &chunk, Carried &sums,
                        Value from, Value to, int32_t elements,
                        function_ref<Carried(Value, Carried)> body) {
  size_t count = sums.size();
  auto take = [&](Carried carried) {
    for (auto [stream, pointer] : llvm::zip(
             chunk.pointers, ArrayRef<Value>(carried).drop_front(count + 1)))
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
  auto goesOn = [&](Value at) -> Value {
    return arith::CmpIOp::create(builder, arith::CmpIPredicate::slt, at, to);
  };
  auto next = [&](Value tensors, Value pointer) {
    return kernel.offset(pointer, kernel.i64(elements / sharedBy(tensors)),
                         bytesOf(tensors));
  };
  if (!chunk.sweep.getQuick())
    return take(kernel.loopWith(
        from, to, kernel.i32(elements), all(from),
        [&](Value at, Carried carried) {
          take(carried);
          sums = body(at, sums);
          for (auto &[tensors, pointer] : chunk.pointers)
            pointer = next(tensors, pointer);
          return all(arith::AddIOp::create(builder, at, kernel.i32(elements)));
        }));
  // Where a round has branches, ptxas moves pointers before it stores by the
  // old ones and then keeps both, unless they are moved behind the jump that
  // ends the last round.
  return take(either(goesOn(from), all(from), [&](Carried initial) {
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
    at = arith::AddIOp::create(builder, at, kernel.i32(elements));
    scf::ConditionOp::create(builder, goesOn(at), all(at));
    at = open(loop.getAfter());
    for (auto &[tensors, pointer] : chunk.pointers)
      pointer = opaque(next(tensors, pointer));
    scf::YieldOp::create(builder, all(at));
    builder.setInsertionPointAfter(loop);
    at = take(Carried(loop.getResults()));
    for (auto &[tensors, pointer] : chunk.pointers)
      pointer = next(tensors, pointer);
    return all(at);
  }));
}

void GpuLowering::sweepChunk(KernelBuilder &kernel, ThreadMemory &memory,
                             SweepOp sweep, Value index) {
  Chunk chunk = openChunk(kernel, memory, sweep, index);
  int32_t covered = chunk.threads * chunk.width;
  unsigned results = sweep.getNumResults(), parts = partsOf(chunk);
  Carried sums = chunk.sums.clear();
  if (!chunk.exchanges())
    sweepAlone(kernel, chunk, index, sums);
  else
    walk(kernel, chunk, sums, chunk.start, kernel.i32(0), covered * parts,
         [&](Value at, Carried carried) {
           at = arith::AddIOp::create(builder, at, chunk.mine);
           for (unsigned part = 0; part < parts; ++part)
             carried = threadInBlock(kernel, chunk, at, carried, part);
           return carried;
         });
  for (unsigned i = 0; i < results; ++i) {
    Value total = totalOf(kernel, chunk, sums, i);
    onFirstThread(kernel, [&] {
      kernel.store(
          total, kernel.chunkWord(sweep.getChunkWord(i), index),
          4);
    });
  }
}

// Vectors as far as they go, then elements.
void GpuLowering::sweepAlone(KernelBuilder &kernel, Chunk &chunk, Value index,
                             Carried &sums) {
  int64_t rows = rowsAhead(chunk), covered = chunk.threads * chunk.width;
  unsigned parts = partsOf(chunk);
  Value at = vectorsFrom(kernel, chunk);
  if (rows > 1)
    at = walk(kernel, chunk, sums, at,
              arith::AddIOp::create(builder, at,
                                    elementsInGroups(kernel, chunk, rows)),
              rows * ALTGRAD_LANES, [&](Value at, Carried carried) {
                return rowsAt(kernel, chunk, at, carried, rows);
              });
  at = walk(kernel, chunk, sums, at, kernel.i32(1 - int32_t(chunk.width)),
            covered * parts, [&](Value at, Carried carried) {
              carried = vectorsAt(kernel, chunk, at, carried, 0);
              for (unsigned part = 1; part < parts; ++part)
                carried = vectorsInside(kernel, chunk, at, carried, part);
              return carried;
            });
  Value any = arith::CmpIOp::create(
      builder, arith::CmpIPredicate::ne,
      arith::AndIOp::create(builder, at, leftOver(kernel, chunk)),
      kernel.i32(0));
  sums = either(any, sums, [&](Carried carried) {
    sums = carried;
    Value from = elementsFrom(kernel, chunk, at);
    reopen(kernel, chunk, index, from);
    walk(kernel, chunk, sums, from, kernel.i32(0),
         elementsOfGroup(chunk) * chunk.threads,
         [&](Value at, Carried carried) {
           return groupAt(kernel, chunk, at, carried);
         });
    return sums;
  });
}

// What a thread does of a part if all of its elements exist.
GpuLowering::Carried GpuLowering::vectorsInside(KernelBuilder &kernel,
                                                Chunk &chunk, Value at,
                                                Carried carried,
                                                unsigned part) {
  int32_t before = part * warpThreads * chunk.width;
  Value inside =
      arith::CmpIOp::create(builder, arith::CmpIPredicate::sle, at,
                            kernel.i32(-before - int32_t(chunk.width)));
  return either(inside, carried, [&](Carried carried) {
    return vectorsAt(kernel, chunk, at, carried, part);
  });
}

Value GpuLowering::address(KernelBuilder &kernel, Chunk &chunk, Value tensors,
                           int64_t element) {
  return kernel.offset(chunk.pointers.lookup(tensors),
                       kernel.i64(element / sharedBy(tensors)),
                       bytesOf(tensors));
}

Value GpuLowering::indexOf(KernelBuilder &kernel, Chunk &chunk, Value at,
                           int64_t further) {
  if (!chunk.end)
    return {};
  Value back = arith::ExtSIOp::create(builder, builder.getI64Type(), at);
  Value end = chunk.fixed ? fixedAt(chunk, 0) : chunk.end;
  return arith::AddIOp::create(
      builder, arith::AddIOp::create(builder, end, back), kernel.i64(further));
}

GpuLowering::Carried GpuLowering::vectorsAt(KernelBuilder &kernel,
                                            Chunk &chunk, Value at,
                                            Carried carried, unsigned part) {
  SweepOp sweep = chunk.sweep;
  unsigned results = sweep.getNumResults(), vectors = chunk.vectors();
  unsigned guarded = vectorsOfGuard(chunk);
  int64_t first = part * warpThreads * chunk.width;
  int64_t width = sweep.getWidth();
  auto period = [&](Value tensors) { return periodOf(chunk, tensors); };
  SmallVector<Value> words(sweep.getLoads().size());
  loadAhead(kernel, chunk, first);
  chunk.drawnFrom = -1;
  SmallVector<SmallVector<Value>> ready;
  SmallVector<SmallVector<Value>> codes(sweep.getStores().size());
  SmallVector<SmallVector<Value>> packed(sweep.getStores().size());
  for (unsigned number = 0; number < vectors; ++number) {
    if (number % guarded == 0)
      ready = vectorsUnderGuard(kernel, chunk, at, first, number, words);
    SmallVector<Value> &emitted = ready[number % guarded];
    for (unsigned i = 0; i < results; ++i)
      chunk.sums.add(carried, i, part * vectors + number, emitted[i]);
    int64_t element = (number + 1) * width;
    for (auto [index, tensors] : llvm::enumerate(sweep.getStores())) {
      Value code = emitted[results + index];
      if (blockOf(tensors) > 1) {
        if (!number)
          kernel.when(leads(kernel, chunk, blockOf(tensors)), [&, stream = tensors] {
            kernel.store(
                vector::ExtractOp::create(builder, code, ArrayRef<int64_t>{0}),
                address(kernel, chunk, stream, first), bytesOf(stream));
          });
        continue;
      }
      codes[index].push_back(code);
      if (element * bitsOf(tensors) % 32)
        continue;
      llvm::append_range(packed[index], pack(tensors, codes[index]));
      codes[index].clear();
      if (element % periodOf(chunk, tensors))
        continue;
      Value all = vector::FromElementsOp::create(
          builder,
          VectorType::get({int64_t(packed[index].size())},
                          packed[index][0].getType()),
          packed[index]);
      packed[index].clear();
      kernel.store(
          all,
          address(kernel, chunk, tensors, first + element - period(tensors)),
          period(tensors) * bitsOf(tensors) / 8);
    }
  }
  chunk.ahead.clear();
  return carried;
}
