// A sweep on a GPU: a block for a chunk, or a warp where sums are to be kept
// apart; 16 bytes of every stream per access.
//
// A thread does as many neighbouring elements as fill 16 bytes of the narrowest
// stream, two at a time. A stream is loaded where the codes of its last access
// run out and stored where 16 bytes are complete; in between, codes are packed
// in words of 32 bits. So a kernel's registers hardly depend on the formats.
#include "codegen/kernels/gpu/GpuLowering.h"
#include "codegen/phases/Launches.h"

using namespace mlir;
using namespace altgrad;

// Elements per thread; with reductions a warp must not pass the 256 lanes. No
// block is of more elements than a warp does at a time.
static int64_t widthOf(SweepOp sweep, int64_t accessBytes) {
  int64_t bytes = 4;
  for (OperandRange streams : {sweep.getLoads(), sweep.getStores()})
    for (Value tensors : streams)
      if (blockOf(tensors) == 1)
        bytes = std::min<int64_t>(bytes, bytesOf(tensors));
  int64_t width = accessBytes / bytes;
  if (sweep.getNumResults())
    width = std::min<int64_t>(width, ALTGRAD_LANES / warpThreads);
  return std::max<int64_t>(width, sweep.getBlock() / warpThreads);
}

// Numbers exist as f32 only between their first and last use: a code takes
// fewer registers. The back ends keep this order.
static void shortenLives(Block &body) {
  auto order = [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); };
  for (DecodeOp decode : llvm::to_vector(body.getOps<DecodeOp>())) {
    SmallVector<Operation *> users(decode->getUsers());
    if (!users.empty())
      decode->moveBefore(*llvm::min_element(users, order));
  }
  for (EncodeOp encode : llvm::to_vector(body.getOps<EncodeOp>())) {
    Operation *last = encode.getNumber().getDefiningOp();
    if (!last || last->getBlock() != &body) // a uniform number
      continue;
    for (Operation *user : encode.getNumber().getUsers())
      if (!isa<EncodeOp, EmitOp>(user) && order(last, user))
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
  bool byBlock = chunkThreads(sweep) == ALTGRAD_BLOCK_THREADS;
  Value first = byBlock ? block : warp, stride = byBlock ? blocks : warps;
  ThreadMemory memory(kernel, inBlock, target.gpu.sharedBytes);
  auto body = [&](Value index) { sweepChunk(kernel, memory, sweep, index); };
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

GpuLowering::Chunk GpuLowering::openChunk(KernelBuilder &kernel,
                                          ThreadMemory &memory, SweepOp sweep,
                                          Value index) {
  Type i64 = builder.getI64Type(), i32 = builder.getI32Type();
  Chunk chunk{sweep, ThreadSums(kernel, sweep, memory), chunkThreads(sweep),
              widthOf(sweep, target.gpu.accessBytes)};
  Value entry = kernel.offset(kernel.member(Member::Chunks), index,
                              sizeof(altgrad_chunk));
  auto phase = sweep->getParentOfType<PhaseOp>();
  kernel.keepsTablesInOrder = waits(phase);
  Row row = kernel.row(kernel.loadTable(i64, entry));
  Value first = kernel.loadTable(i64, kernel.offset(entry, kernel.i64(1), 8));
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
  kernel.keepsTablesInOrder = false;
  ScalarLowering scalars(kernel, row);
  scalars.lowerBefore(sweep, [&](Value condition) {
    count = arith::SelectOp::create(builder, condition, count, kernel.i32(0));
  });
  scalars.lowerInside(sweep);
  chunk.known = scalars.known;
  if (usesIndex(sweep))
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
  if (exchangesInBlocks(sweep)) {
    chunk.start = arith::SubIOp::create(builder, kernel.i32(0), count);
    chunk.mine = mine32;
  }
  Value element = arith::AddIOp::create(builder, first, mine);
  chunk.aligned = arith::ConstantIntOp::create(builder, true, 1);
  for (auto &[tensors, pointer] : chunk.pointers) {
    if (blockOf(tensors) == 1) // others are moved value by value
      chunk.aligned = arith::AndIOp::create(
          builder, chunk.aligned, isAligned(kernel, chunk, tensors, pointer));
    pointer = elementAt(kernel, tensors, pointer, element);
  }
  storeScalars(kernel, chunk, memory);
  return chunk;
}

void GpuLowering::sweepChunk(KernelBuilder &kernel, ThreadMemory &memory,
                             SweepOp sweep, Value index) {
  Chunk chunk = openChunk(kernel, memory, sweep, index);
  int32_t covered = chunk.threads * chunk.width;
  unsigned results = sweep.getNumResults();
  unsigned parts = results ? ALTGRAD_LANES / covered : 1;
  Carried initial = chunk.sums.clear();
  unsigned count = initial.size();
  // The pointers walk with the thread: one register pair for each stream.
  for (auto &[tensors, pointer] : chunk.pointers)
    initial.push_back(pointer);
  auto walk = [&](Value from, Value to, int32_t elements, Carried initial,
                  function_ref<Carried(Value, Carried)> body) {
    return kernel.loopWith(
        from, to, kernel.i32(elements), initial,
        [&](Value at, Carried carried) {
          for (auto [stream, pointer] : llvm::zip(
                   chunk.pointers, ArrayRef<Value>(carried).drop_front(count)))
            stream.second = pointer;
          carried.truncate(count);
          carried = body(at, carried);
          for (auto &[tensors, pointer] : chunk.pointers)
            carried.push_back(kernel.offset(
                pointer, kernel.i64(elements / blockOf(tensors)),
                bytesOf(tensors)));
          return carried;
        });
  };
  Value from = chunk.exchanges() ? chunk.start : chunk.from;
  Carried carried = initial;
  if (int64_t rows = rowsAhead(chunk); rows > 1) {
    Value to = arith::AddIOp::create(builder, from,
                                     elementsInGroups(kernel, chunk, rows));
    carried = walk(from, to, rows * ALTGRAD_LANES, carried,
                   [&](Value at, Carried carried) {
                     return rowsAt(kernel, chunk, at, carried, rows);
                   });
    from = to;
  }
  carried = walk(from, kernel.i32(0), covered * parts, carried,
                 [&](Value at, Carried carried) {
                   if (chunk.exchanges())
                     at = arith::AddIOp::create(builder, at, chunk.mine);
                   for (unsigned part = 0; part < parts; ++part)
                     carried = threadAt(kernel, chunk, at, carried, part);
                   return carried;
                 });
  for (unsigned i = 0; i < results; ++i) {
    Value total = totalOf(kernel, chunk, carried, i);
    onFirstThread(kernel, [&] {
      kernel.store(
          total, kernel.chunkWord(sweep.getChunkWord(i), index),
          4);
    });
  }
}

// The tree 128, 64 … 1: parts, then threads, then vectors and their elements.
Value GpuLowering::totalOf(KernelBuilder &kernel, Chunk &chunk,
                           const Carried &carried, unsigned result) {
  Reduction kind = chunk.sweep.getReduction(result);
  unsigned all = chunk.sums.vectors(result);
  unsigned vectors = std::min(chunk.vectors(), all);
  SmallVector<Value> elements;
  for (unsigned number = 0; number < vectors; ++number) {
    Value sum = chunk.sums.vector(carried, result, number);
    if (vectors < all)
      sum = join(builder, kind, sum,
                 chunk.sums.vector(carried, result, vectors + number));
    llvm::append_range(elements, elementsOf(joinThreads(kernel, kind, sum)));
  }
  return joinElements(kind, elements);
}

// The elements of one thread: as vectors where all of them exist and are
// aligned.
GpuLowering::Carried GpuLowering::threadAt(KernelBuilder &kernel, Chunk &chunk,
                                           Value at, Carried carried,
                                           unsigned part) {
  int32_t before = part * warpThreads * chunk.width;
  if (chunk.exchanges()) {
    loadShared(kernel, chunk, at, part);
    reduceBlocks(kernel, chunk, at, part);
  }
  Value inside =
      arith::CmpIOp::create(builder, arith::CmpIPredicate::sle, at,
                            kernel.i32(-before - int32_t(chunk.width)));
  SmallVector<Type> types;
  for (Value value : carried)
    types.push_back(value.getType());
  auto branch = scf::IfOp::create(
      builder, types, arith::AndIOp::create(builder, inside, chunk.aligned),
      /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  Carried fast = vectorsAt(kernel, chunk, at, carried, part);
  scf::YieldOp::create(builder, fast);
  builder.setInsertionPointToStart(branch.elseBlock());
  Carried slow = tailAt(kernel, chunk, at, carried, part);
  scf::YieldOp::create(builder, slow);
  return Carried(branch.getResults());
}

Value GpuLowering::address(KernelBuilder &kernel, Chunk &chunk, Value tensors,
                           int64_t element) {
  return kernel.offset(chunk.pointers.lookup(tensors),
                       kernel.i64(element / blockOf(tensors)),
                       bytesOf(tensors));
}

Value GpuLowering::indexOf(KernelBuilder &kernel, Chunk &chunk, Value at,
                           int64_t further) {
  if (!chunk.end)
    return {};
  Value back = arith::ExtSIOp::create(builder, builder.getI64Type(), at);
  return arith::AddIOp::create(
      builder, arith::AddIOp::create(builder, chunk.end, back),
      kernel.i64(further));
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
          kernel.when(leads(kernel, chunk), [&, stream = tensors] {
            kernel.store(
                vector::ExtractOp::create(builder, code, ArrayRef<int64_t>{0}),
                address(kernel, chunk, stream, first), bytesOf(stream));
          });
        continue;
      }
      codes[index].push_back(code);
      if (element * bytesOf(tensors) % 4)
        continue;
      llvm::append_range(packed[index], pack(codes[index]));
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
          period(tensors) * bytesOf(tensors));
    }
  }
  return carried;
}

Value GpuLowering::loadElement(KernelBuilder &kernel, Chunk &chunk,
                               Value tensors, int64_t first, Value offset,
                               Type type) {
  if (Value one = chunk.shared.lookupOrNull(tensors))
    return one;
  Value from = kernel.offset32(address(kernel, chunk, tensors, first), offset,
                               bytesOf(tensors));
  return kernel.load(type, from, bytesOf(tensors), readOnly(tensors));
}

// One element after the other; each goes to its own lane of the partial sums.
GpuLowering::Carried GpuLowering::tailAt(KernelBuilder &kernel, Chunk &chunk,
                                         Value at, Carried carried,
                                         unsigned part) {
  SweepOp sweep = chunk.sweep;
  unsigned results = sweep.getNumResults(), vectors = chunk.vectors();
  int64_t first = part * warpThreads * chunk.width;
  auto element = [&](Value tensors, Value offset) {
    if (blockOf(tensors) > 1)
      return address(kernel, chunk, tensors, first);
    return kernel.offset32(address(kernel, chunk, tensors, first), offset,
                           bytesOf(tensors));
  };
  Value from = arith::AddIOp::create(builder, at, kernel.i32(first));
  Value to = arith::MinSIOp::create(
      builder,
      arith::AddIOp::create(builder, from, kernel.i32(chunk.width)),
      kernel.i32(0));
  return kernel.loopWith(
      from, to, kernel.i32(1), carried, [&](Value index, Carried next) {
        Value offset = arith::SubIOp::create(builder, index, from);
        SmallVector<Value> loaded;
        for (auto [argument, tensors] :
             llvm::zip(sweep.getBody().getArguments(), sweep.getLoads()))
          loaded.push_back(loadElement(kernel, chunk, tensors, first, offset,
                                       argument.getType()));
        SmallVector<Value> emitted =
            cloneSweepBody(builder, sweep.getBody(),
                           {loaded, chunk.known,
                            indexOf(kernel, chunk, index, 0)});
        for (unsigned i = 0; i < results; ++i)
          chunk.sums.addElement(next, i, part * vectors, vectors, offset,
                                emitted[i]);
        for (auto [number, tensors] : llvm::enumerate(sweep.getStores())) {
          auto store = [&, number = number, tensors = tensors] {
            kernel.store(emitted[results + number], element(tensors, offset),
                         bytesOf(tensors));
          };
          if (blockOf(tensors) == 1) {
            store();
            continue;
          }
          Value begins = arith::CmpIOp::create(
              builder, arith::CmpIPredicate::eq, index, from);
          kernel.when(arith::AndIOp::create(builder, begins,
                                            leads(kernel, chunk)),
                      store);
        }
        return next;
      });
}
