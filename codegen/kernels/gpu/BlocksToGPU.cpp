// Blocks of elements on a GPU, each done by a few neighbouring threads. What a
// block has stored its first thread reads, for the others too: it may overwrite
// it. A reduction is each thread's over its own elements, then the threads'
// among themselves.
//
// All threads of a warp take part, those behind the tensor's end with nothing.
// A thread's elements are read once for each reduction and once more for the
// body.
#include "codegen/kernels/PackedCodes.h"
#include "codegen/kernels/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

// The elements of one thread: as vectors where all of them exist and are
// aligned.
GpuLowering::Carried GpuLowering::threadInBlock(KernelBuilder &kernel,
                                                Chunk &chunk, Value at,
                                                Carried carried,
                                                unsigned part) {
  int32_t first = part * warpThreads * chunk.width;
  loadShared(kernel, chunk, at, part);
  reduceBlocks(kernel, chunk, at, part);
  Value inside =
      arith::CmpIOp::create(builder, arith::CmpIPredicate::sle, at,
                            kernel.i32(-first - int32_t(chunk.width)));
  inside = arith::AndIOp::create(builder, inside, chunk.aligned);
  return either(
      inside, carried,
      [&](Carried carried) {
        return vectorsAt(kernel, chunk, at, carried, part);
      },
      [&](Carried carried) {
        Value from = arith::AddIOp::create(builder, at, kernel.i32(first));
        Value to = arith::MinSIOp::create(
            builder,
            arith::AddIOp::create(builder, from, kernel.i32(chunk.width)),
            kernel.i32(0));
        return oneByOne(kernel, chunk, from, to, 1, first, carried,
                        part * chunk.vectors());
      });
}

Value GpuLowering::leads(KernelBuilder &kernel, Chunk &chunk, unsigned block) {
  int64_t threads = block / chunk.width;
  Value number =
      arith::AndIOp::create(builder, inWarp, kernel.i64(threads - 1));
  return arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, number,
                               kernel.i64(0));
}

void GpuLowering::reduceBlocks(KernelBuilder &kernel, Chunk &chunk, Value at,
                               unsigned part) {
  for (auto [number, reduce] :
       llvm::enumerate(blockReductions(chunk.sweep.getBody()))) {
    Value own = reduceOwn(kernel, chunk, at, part, number);
    Value all = joinBlock(kernel, chunk, reduce, own);
    chunk.known.map(reduce.getResult(), all);
    for (Region &wide : chunk.sweep.getWide())
      chunk.known.map(blockReductions(wide)[number].getResult(), all);
  }
}

// The code that the first thread of a block has.
Value GpuLowering::fromFirst(KernelBuilder &kernel, Chunk &chunk, Value code,
                             unsigned block) {
  Type type = code.getType(), i32 = builder.getI32Type();
  Value word = type.isF32()
                   ? arith::BitcastOp::create(builder, i32, code).getResult()
                   : arith::ExtUIOp::create(builder, i32, code).getResult();
  int32_t threads = block / chunk.width;
  Value source = arith::AndIOp::create(
      builder, arith::TruncIOp::create(builder, i32, inWarp),
      kernel.i32(-threads));
  word =
      LLVM::CallIntrinsicOp::create(
          builder, i32, builder.getStringAttr("llvm.nvvm.shfl.sync.idx.i32"),
          ValueRange{kernel.i32(-1), word, source, kernel.i32(warpThreads - 1)})
          .getResult(0);
  if (type.isF32())
    return arith::BitcastOp::create(builder, type, word);
  return arith::TruncIOp::create(builder, type, word);
}

void GpuLowering::loadShared(KernelBuilder &kernel, Chunk &chunk, Value at,
                             unsigned part) {
  int64_t first = part * warpThreads * chunk.width;
  for (auto [argument, tensors] : llvm::zip(
           chunk.sweep.getBody().getArguments(), chunk.sweep.getLoads())) {
    if (blockOf(tensors) == 1)
      continue;
    Type type = argument.getType();
    Value exists = arith::CmpIOp::create(builder, arith::CmpIPredicate::slt, at,
                                         kernel.i32(-int32_t(first)));
    auto branch = scf::IfOp::create(
        builder, TypeRange{type},
        arith::AndIOp::create(builder, exists,
                               leads(kernel, chunk, blockOf(tensors))),
        /*addThenBlock=*/true, /*addElseBlock=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder,
                         kernel.load(type, address(kernel, chunk, tensors, first),
                                     bytesOf(tensors)));
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, ValueRange{arith::ConstantOp::create(
                                      builder, builder.getZeroAttr(type))});
    builder.setInsertionPointAfter(branch);
    chunk.shared.map(tensors,
                     fromFirst(kernel, chunk, branch.getResult(0),
                               blockOf(tensors)));
  }
}

// The threads of a block are neighbours, a power of two of them.
Value GpuLowering::joinBlock(KernelBuilder &kernel, Chunk &chunk,
                             BlockReduceOp reduce, Value own) {
  int32_t threads = reduce.getBlock() / chunk.width;
  for (int32_t distance = threads / 2; distance; distance /= 2)
    own = join(builder, reduce.getReduction(), own,
               exchanged(kernel, own, distance));
  return own;
}

// The number of the thread whose place in the warp differs in that bit.
Value GpuLowering::exchanged(KernelBuilder &kernel, Value own, int32_t distance) {
  StringAttr shuffle = builder.getStringAttr("llvm.nvvm.shfl.sync.bfly.f32");
  return LLVM::CallIntrinsicOp::create(
             builder, own.getType(), shuffle,
             ValueRange{kernel.i32(-1), own, kernel.i32(distance),
                        kernel.i32(warpThreads - 1)})
      .getResult(0);
}

// What a thread's own elements give: as vectors where all of them exist and are
// aligned, otherwise one after the other.
Value GpuLowering::reduceOwn(KernelBuilder &kernel, Chunk &chunk, Value at,
                             unsigned part, unsigned reduction) {
  SweepOp sweep = chunk.sweep;
  Type f32 = builder.getF32Type();
  int64_t first = part * warpThreads * chunk.width;
  Value inside = arith::CmpIOp::create(
      builder, arith::CmpIPredicate::sle, at,
      kernel.i32(-int32_t(first) - int32_t(chunk.width)));
  auto branch = scf::IfOp::create(
      builder, TypeRange{f32},
      arith::AndIOp::create(builder, inside, chunk.aligned),
      /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  Region &wide = sweep.getWide().front();
  BlockReduceOp reduce = blockReductions(wide)[reduction];
  Reduction kind = reduce.getReduction();
  Value sum = neutral(builder, kind, reduce.getType());
  for (unsigned number = 0; number < chunk.vectors(); ++number) {
    int64_t element = first + number * sweep.getWidth();
    SmallVector<Value> loaded;
    for (auto [argument, tensors] :
         llvm::zip(wide.getArguments(), sweep.getLoads())) {
      Value one = chunk.shared.lookupOrNull(tensors);
      loaded.push_back(
          one ? Value(vector::BroadcastOp::create(builder, argument.getType(),
                                                  one))
              : loadCodes(kernel, tensors, cast<VectorType>(argument.getType()),
                          address(kernel, chunk, tensors, element),
                          sweep.getWidth() * bytesOf(tensors)));
    }
    Value index = indexOf(kernel, chunk, at, element);
    SmallVector<Value> draws = drawApart(chunk, wide, index, 1);
    Value value = cloneValues(builder, wide, reduce.getValue(),
                              {loaded, chunk.known, index, 1, draws})[0];
    sum = join(builder, kind, sum, value);
  }
  scf::YieldOp::create(builder, joinElements(kind, elementsOf(sum)));

  builder.setInsertionPointToStart(branch.elseBlock());
  Region &narrow = sweep.getBody();
  reduce = blockReductions(narrow)[reduction];
  Value from = arith::AddIOp::create(builder, at, kernel.i32(first));
  Value to = arith::MinSIOp::create(
      builder, arith::AddIOp::create(builder, from, kernel.i32(chunk.width)),
      kernel.i32(0));
  Value total = kernel.loopWith(
      from, to, kernel.i32(1), neutral(builder, kind, f32),
      [&](Value index, SmallVector<Value> before) -> SmallVector<Value> {
        Value offset = arith::SubIOp::create(builder, index, from);
        SmallVector<Value> loaded;
        for (auto [argument, tensors] :
             llvm::zip(narrow.getArguments(), sweep.getLoads()))
          loaded.push_back(loadElement(kernel, chunk, tensors, first, offset,
                                       argument.getType()));
        Value global = indexOf(kernel, chunk, index, 0);
        SmallVector<Value> draws = drawApart(chunk, narrow, global, 1);
        Value value = cloneValues(builder, narrow, reduce.getValue(),
                                  {loaded, chunk.known, global, 1, draws})[0];
        return {join(builder, kind, before[0], value)};
      })[0];
  scf::YieldOp::create(builder, total);
  return branch.getResult(0);
}
