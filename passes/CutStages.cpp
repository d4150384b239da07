// Sweeps ==> stages: what is computed before and behind a reduction over a block, and what waits for it.
#include "dialect/Codecs.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "passes/Passes.h"
#include "passes/SweepQueries.h"

namespace altgrad {
#define GEN_PASS_DEF_CUTSTAGESPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

namespace {
struct Stage {
  SmallVector<Value> reductions = {};
  llvm::SetVector<Value> kept = {};
  SmallVector<int64_t> emitted = {};
};
} // namespace

static void append(SweepOp sweep, ArrayRef<Stage> stages) {
  OpBuilder builder(sweep.getEmit());
  for (const Stage &stage : stages)
    StageOp::create(builder, sweep.getLoc(), stage.reductions, stage.kept.getArrayRef(), stage.emitted);
}

//===-- Tiles ---------------------------------------------------------------===//

using Operations = llvm::SetVector<Operation *>;

// What is computed from a value or by an operation, but for `without`.
template <typename Root> static Operations madeFrom(Root root, Operation *without = nullptr) {
  Operations made;
  ForwardSliceOptions options;
  options.filter = [&](Operation *op) { return !isa<EmitOp>(op) && op != without; };
  getForwardSlice(root, &made, options);
  return made;
}

// The codes that a body has of columns and squares.
static SmallVector<Value> listCodes(SweepOp sweep) {
  SmallVector<Value> codes;
  for (auto [code, stream] : llvm::zip(sweep.getBody().getArguments(), sweep.getLoads()))
    if (isPerTileBlock(stream))
      codes.push_back(code);
  return codes;
}

// Values where column data combines with element data, or is stored for an element. If one of them is not an f32: the
// values from which all of them can be computed.
static llvm::SetVector<Value> sharedBy(SweepOp sweep, ReduceOp most, const Operations &late) {
  Operations ofElement = madeFrom(most.getValue(), most), ofColumn = late;
  llvm::SetVector<Value> met, origins;
  origins.insert(most);
  for (Value code : listCodes(sweep)) {
    ofColumn.insert_range(madeFrom(code));
    for (Operation *user : code.getUsers())
      origins.insert(code.getType().isF32() ? code : user->getResult(0));
  }
  auto meet = [&](Value value) {
    Operation *from = value.getDefiningOp();
    if (value == most.getValue()) // of the element, though lists may be in it
      return;
    if (from ? ofColumn.contains(from) && !ofElement.contains(from) : origins.contains(value))
      met.insert(value);
  };
  for (Operation *op : ofElement)
    llvm::for_each(op->getOperands(), meet);
  for (auto [stream, value] : llvm::zip(sweep.getStores(), sweep.getEmit().getValues()))
    if (!isPerTileBlock(stream) && late.contains(value.getDefiningOp()))
      meet(value);
  bool areNumbers = llvm::all_of(met, [](Value value) { return value.getType().isF32(); });
  return areNumbers ? met : origins;
}

// Copies what `values` need of a sweep's body for the elements of a tile, which are what `number` was.
static SweepOp makeTiles(SweepOp sweep, Value number, ValueRange streams, ValueRange values, IRMapping &map) {
  OpBuilder builder(sweep);
  Value tile = SpillOp::create(builder, sweep.getLoc(),
                               TensorsType::get(sweep.getContext(), FormatAttr::getNamed(sweep.getContext(), "f32")));
  builder.setInsertionPointAfter(sweep);
  auto tiles = SweepOp::create(builder, sweep.getLoc(), TypeRange(), sweep.getNameAttr(), /*condition=*/Value(), tile,
                               streams, builder.getArrayAttr({}), builder.getArrayAttr({}),
                               builder.getI64IntegerAttr(1), DenseBoolArrayAttr(), /*wideRegionsCount=*/0);
  Block *block = builder.createBlock(&tiles.getBody());
  map.map(number, block->addArgument(number.getType(), number.getLoc()));
  llvm::BitVector lists = findArguments(values, sweep.getBody(), map);
  SmallVector<bool> renewed(1);
  for (unsigned list : lists.set_bits()) {
    BlockArgument code = sweep.getBody().getArgument(list);
    tiles.getLoadsMutable().append(sweep.getLoads()[list]);
    renewed.push_back(sweep.isRenewed(list));
    map.map(code, block->addArgument(code.getType(), code.getLoc()));
  }
  tiles.setRenewed(renewed);
  Operations needed = findOperations(values, sweep.getBody(), map);
  for (Operation &op : sweep.getBody().front().without_terminator())
    if (needed.contains(&op))
      builder.clone(op, map);
  SmallVector<Value> emitted;
  for (Value value : values)
    emitted.push_back(map.lookupOrDefault(value));
  EmitOp::create(builder, sweep.getEmit().getLoc(), emitted);
  return tiles;
}

// The stores that wait for the largest of a column or a square get a sweep of their own, over numbers that the
// other leaves.
static void cutTiles(SweepOp sweep) {
  Block &body = sweep.getBody().front();
  auto found = llvm::find_if(body, [](Operation &op) { return isOverTile(&op); });
  if (found == body.end()) // it only loads what tiles share
    return;
  auto most = cast<ReduceOp>(*found);
  Operations late = madeFrom(most.getOperation());
  late.insert(most);
  SmallVector<Value> streams[2], values[2]; // before, and late
  for (auto [stream, value] : llvm::zip(sweep.getStores(), sweep.getEmit().getValues())) {
    bool isLate = late.contains(value.getDefiningOp());
    streams[isLate].push_back(stream);
    values[isLate].push_back(value);
  }
  IRMapping map;
  SweepOp tiles = makeTiles(sweep, most.getValue(), streams[1], values[1], map);
  Stage largest{{map.lookup(most.getResult())}}, ofBlock, ofElement;
  for (Value shared : sharedBy(sweep, most, late))
    if (Value here = map.lookupOrNull(shared))
      ofBlock.kept.insert(here);
  for (auto [place, stream] : llvm::enumerate(streams[1]))
    (isPerTileBlock(stream) ? ofBlock : ofElement).emitted.push_back(place);
  append(tiles, {largest, ofBlock, ofElement});

  streams[0].push_back(tiles.getLoads()[0]);
  values[0].push_back(most.getValue());
  sweep.getStoresMutable().assign(streams[0]);
  sweep.getEmit().getValuesMutable().assign(values[0]);
  Operations unused;
  for (Value code : listCodes(sweep))
    unused.insert_range(madeFrom(code));
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (late.contains(&op) || (op.use_empty() && unused.contains(&op)))
      op.erase();
  SmallVector<bool> renewed;
  for (unsigned i = sweep.getLoads().size(); i-- > 0;)
    if (isPerTileBlock(sweep.getLoads()[i]) && body.getArgument(i).use_empty()) {
      body.eraseArgument(i);
      sweep.getLoadsMutable().erase(i);
    } else {
      renewed.insert(renewed.begin(), sweep.isRenewed(i));
    }
  sweep.setRenewed(renewed);
}

//===-- Blocks --------------------------------------------------------------===//

namespace {
// Where in a sweep a value belongs.
struct Depth {
  unsigned stage = 0;
  bool varies = false;  // within a block
  bool looksUp = false; // a code in a book, or is computed from such
};
using Depths = llvm::MapVector<Value, Depth>;
} // namespace

// Of each value the most that an operand has, from `begin` on, and what `count` makes of that. Scalars have no entry:
// they belong to the first stage and do not vary.
static Depths measureDepths(SweepOp sweep, unsigned begin, function_ref<void(Operation &, Depth &)> count) {
  Depths depths;
  for (auto [argument, stream] : llvm::zip(sweep.getBody().getArguments(), sweep.getLoads()))
    depths[argument] = {begin, getBlock(stream) == 1};
  for (Operation &op : sweep.getBody().front().without_terminator()) {
    Depth depth{begin, isa<IndexOp, DrawOp>(op)};
    for (Value operand : op.getOperands()) {
      Depth of = depths.lookup(operand);
      depth = {std::max(depth.stage, of.stage), depth.varies || of.varies, depth.looksUp || of.looksUp};
    }
    count(op, depth);
    for (Value result : op.getResults())
      depths[result] = depth;
  }
  return depths;
}

static unsigned deepest(const Depths &depths) {
  unsigned most = 0;
  for (auto &[value, depth] : depths)
    most = std::max(most, depth.stage);
  return most;
}

// What the stage reads of earlier ones and varies within a block waits; what is the same for a block's elements is
// computed where it is asked for.
static void keepFor(unsigned stage, SweepOp sweep, MutableArrayRef<Stage> stages, const Depths &depths) {
  llvm::SetVector<Value> work;
  for (Value reduced : stages[stage].reductions)
    work.insert(reduced.getDefiningOp<ReduceOp>().getValue());
  for (int64_t place : stages[stage].emitted)
    work.insert(sweep.getEmit().getOperand(place));
  for (size_t i = 0; i < work.size(); ++i) {
    Depth depth = depths.lookup(work[i]);
    if (depth.varies && depth.stage < stage && !isa_and_present<DrawOp>(work[i].getDefiningOp()))
      stages[depth.stage].kept.insert(work[i]);
    else if (Operation *op = work[i].getDefiningOp(); op && op->getParentOp() == sweep && !isa<ReduceOp>(op))
      work.insert_range(op->getOperands());
  }
}

// What a reduction and others both compute of what is looked up.
static SmallVector<Value> getCommon(ReduceOp reduce, const Depths &depths) {
  DenseSet<Operation *> own{reduce}; // what nobody else needs
  for (Operation &op : llvm::reverse(*reduce->getBlock()))
    if (!op.use_empty() && llvm::all_of(op.getUsers(), [&](Operation *user) { return own.contains(user); }))
      own.insert(&op);
  llvm::SetVector<Value> way;
  way.insert(reduce.getValue());
  SmallVector<Value> common;
  for (size_t i = 0; i < way.size(); ++i)
    if (!depths.lookup(way[i]).looksUp)
      continue;
    else if (Operation *from = way[i].getDefiningOp(); own.contains(from))
      way.insert_range(from->getOperands());
    else
      common.push_back(way[i]);
  return common;
}

// By permutations, of which there are fewer the more codes they are for.
static bool isBookDecoded(Operation &op) {
  auto decode = dyn_cast<DecodeOp>(op);
  return decode && getTable(decode) && decode.getFormat().getBits() == 8 && isa<BlockArgument>(decode.getCode());
}

// A stage for each of the reductions that wait for each other. A CPU computes nothing twice, and some decode the codes
// of books before all else. A GPU reads an element again for each stage, from the nearest cache, but looks
// nothing up twice; its last stage has the whole body.
static SmallVector<Stage> stagesOfBlocks(SweepOp sweep, const Target &target) {
  Region &body = sweep.getBody();
  unsigned begin =
      target.cpu.fastBooks && sweep.getBlock() % codesPerDecode == 0 && llvm::any_of(body.front(), isBookDecoded);
  Depths depths = measureDepths(sweep, begin, [&](Operation &op, Depth &depth) {
    if (isa<ReduceOp>(op))
      depth = {depth.stage + 1, false};
    else if (begin && isBookDecoded(op))
      depth = {0, true};
    if (isa<DecodeOp>(op))
      depth.looksUp = getTable(&op) != nullptr;
  });
  unsigned last = std::max(begin, deepest(depths));
  SmallVector<Stage> stages(last + 1);
  auto getStage = [&](Value value) { return std::max(depths.lookup(value).stage, begin); };
  for (ReduceOp reduce : getBlockReductions(body))
    stages[getStage(reduce.getValue())].reductions.push_back(reduce);
  for (auto [place, value] : llvm::enumerate(sweep.getEmit().getValues()))
    stages[target.isPtx() ? last : getStage(value)].emitted.push_back(place);
  if (!target.isPtx())
    for (unsigned stage = 1; stage <= last; ++stage)
      keepFor(stage, sweep, stages, depths);
  else
    for (ReduceOp reduce : getBlockReductions(body))
      for (Value value : getCommon(reduce, depths))
        if (llvm::none_of(stages, [&](const Stage &stage) { return stage.kept.contains(value); }))
          stages[getStage(reduce.getValue())].kept.insert(value);
  return stages;
}

//===-- Words on a CPU ------------------------------------------------------===//

static bool isSlow(Operation *op) { return isa_and_present<arith::DivFOp, math::SqrtOp>(op); }

// The order of elements is free without a reduction: the low halves of words are one vector, the high halves another.
// A value of 64 bits would not fit its place in the memory between two stages.
static bool goesByWords(SweepOp sweep, const Target &target) {
  auto isWide = [](Operation &op) {
    return llvm::any_of(op.getResultTypes(),
                        [&](Type type) { return type.getIntOrFloatBitWidth() > (isa<DrawOp>(op) ? 16 : 32); });
  };
  return !target.isPtx() && isAllBf16(sweep) && sweep.getReduced().empty() && !sweep.getTiles() &&
         !sweep.goesOverTiles() && llvm::none_of(sweep.getBody().front(), isWide);
}

// Cut before the last of slow operations in a row, each stage has several elements under way. The first one overwrites
// streams that it stores: it loads them, too.
static SmallVector<Stage> stagesOfWords(SweepOp sweep, unsigned serialDivisions) {
  Depths depths =
      measureDepths(sweep, 0, [](Operation &op, Depth &depth) { depth.stage += depth.varies && isSlow(&op); });
  unsigned most = deepest(depths);
  bool isCut = serialDivisions && most >= serialDivisions;
  SmallVector<Stage> stages(1 + isCut);
  SmallVector<Value> early;
  for (auto [place, value] : llvm::enumerate(sweep.getEmit().getValues())) {
    bool isLate = isCut && depths.lookup(value).stage == most;
    stages[isLate].emitted.push_back(place);
    if (!isLate)
      early.push_back(value);
  }
  if (!isCut)
    return stages;
  for (auto &[value, depth] : depths)
    if (isSlow(value.getDefiningOp()) && depth.stage < most)
      early.push_back(value);
  Operations first = findOperations(early, sweep.getBody(), {});
  llvm::BitVector loaded = findArguments(early, sweep.getBody(), {});
  for (int64_t place : stages[0].emitted)
    for (auto [number, stream] : llvm::enumerate(sweep.getLoads()))
      if (stream == sweep.getStores()[place])
        loaded.set(number);
  for (auto &[value, depth] : depths) {
    auto argument = dyn_cast<BlockArgument>(value);
    depth.stage = argument ? !loaded[argument.getArgNumber()] : !first.contains(value.getDefiningOp());
  }
  keepFor(1, sweep, stages, depths);
  return stages;
}

namespace {
struct CutStages : altgrad::impl::CutStagesPassBase<CutStages> {
  using CutStagesPassBase::CutStagesPassBase;

  void runOnOperation() override {
    auto cut = [](PhaseOp, SweepOp sweep, const Target &machine) {
      if (sweep && sweep.goesOverTiles())
        cutTiles(sweep);
      if (sweep && exchangesInBlocks(sweep))
        append(sweep, stagesOfBlocks(sweep, machine));
      else if (sweep && goesByWords(sweep, machine))
        append(sweep, stagesOfWords(sweep, machine.cpu.serialDivisions));
      return success();
    };
    if (failed(forEachPhase(getOperation(), target, cut)))
      signalPassFailure();
  }
};
} // namespace
