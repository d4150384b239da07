// Sweeps ==> stages: what is computed before and behind a reduction over a block, and what waits for it.
#include "dialect/Codecs.h"
#include "dialect/WalkBack.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "passes/Forms.h"
#include "passes/Passes.h"
#include "passes/SweepBuilder.h"
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
template <typename Root> static Operations collectUsers(Root root, Operation *without = nullptr) {
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
static llvm::SetVector<Value> findSharedValues(SweepOp sweep, ReduceOp most, const Operations &late) {
  Operations ofElement = collectUsers(most.getValue(), most), ofColumn = late;
  llvm::SetVector<Value> met, origins;
  origins.insert(most);
  for (Value code : listCodes(sweep)) {
    ofColumn.insert_range(collectUsers(code));
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
static SweepOp createTileSweep(SweepOp sweep, Value number, ValueRange streams, ValueRange values, IRMapping &map) {
  OpBuilder builder(sweep);
  Value tile = SpillOp::create(builder, sweep.getLoc(),
                               TensorsType::get(sweep.getContext(), FormatAttr::getNamed(sweep.getContext(), "f32")));
  builder.setInsertionPointAfter(sweep);
  SweepParts parts{sweep.getNameAttr(), /*condition=*/{}, {tile}, llvm::to_vector(streams), /*renewed=*/{false}};
  auto block = std::make_unique<Block>();
  OpBuilder inner(sweep.getContext());
  inner.setInsertionPointToEnd(block.get());
  map.map(number, block->addArgument(number.getType(), number.getLoc()));
  llvm::BitVector lists = findArguments(values, sweep.getBody(), map);
  for (unsigned list : lists.set_bits()) {
    BlockArgument code = sweep.getBody().getArgument(list);
    parts.loads.push_back(sweep.getLoads()[list]);
    parts.renewed.push_back(sweep.isRenewed(list));
    map.map(code, block->addArgument(code.getType(), code.getLoc()));
  }
  Operations needed = findOperations(values, sweep.getBody(), map);
  for (Operation &op : sweep.getBody().front().without_terminator())
    if (needed.contains(&op))
      inner.clone(op, map);
  SmallVector<Value> emitted;
  for (Value value : values)
    emitted.push_back(map.lookupOrDefault(value));
  EmitOp::create(inner, sweep.getEmit().getLoc(), emitted);
  return createSweep(builder, sweep.getLoc(), parts, std::move(block));
}

// The stores that wait for the largest of a column or a square get a sweep of their own, over numbers that the
// other leaves.
static void cutTiles(SweepOp sweep) {
  Block &body = sweep.getBody().front();
  auto found = llvm::find_if(body, [](Operation &op) { return isOverTile(&op); });
  if (found == body.end()) // it only loads what tiles share
    return;
  auto most = cast<ReduceOp>(*found);
  Operations late = collectUsers(most.getOperation());
  late.insert(most);
  SmallVector<Value> streams[2], values[2]; // before, and late
  for (auto [stream, value] : llvm::zip(sweep.getStores(), sweep.getEmit().getValues())) {
    bool isLate = late.contains(value.getDefiningOp());
    streams[isLate].push_back(stream);
    values[isLate].push_back(value);
  }
  IRMapping map;
  SweepOp tiles = createTileSweep(sweep, most.getValue(), streams[1], values[1], map);
  Stage largest{{map.lookup(most.getResult())}}, ofBlock, ofElement;
  for (Value shared : findSharedValues(sweep, most, late))
    if (Value here = map.lookupOrNull(shared))
      ofBlock.kept.insert(here);
  for (auto [index, stream] : llvm::enumerate(streams[1]))
    (isPerTileBlock(stream) ? ofBlock : ofElement).emitted.push_back(index);
  append(tiles, {largest, ofBlock, ofElement});

  streams[0].push_back(tiles.getLoads()[0]);
  values[0].push_back(most.getValue());
  sweep.getStoresMutable().assign(streams[0]);
  sweep.getEmit().getValuesMutable().assign(values[0]);
  Operations unused;
  for (Value code : listCodes(sweep))
    unused.insert_range(collectUsers(code));
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
  bool varies = false;   // within a block
  bool usesBook = false; // a code in a book, or is computed from such
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
      depth = {std::max(depth.stage, of.stage), depth.varies || of.varies, depth.usesBook || of.usesBook};
    }
    count(op, depth);
    for (Value result : op.getResults())
      depths[result] = depth;
  }
  return depths;
}

static unsigned getLastStage(const Depths &depths) {
  unsigned most = 0;
  for (auto &[value, depth] : depths)
    most = std::max(most, depth.stage);
  return most;
}

// What the stage reads of earlier ones and varies within a block waits; what is the same for a block's elements is
// computed where it is asked for.
static void addKeptValues(unsigned stage, SweepOp sweep, MutableArrayRef<Stage> stages, const Depths &depths) {
  SmallVector<Value> wanted;
  for (Value reduced : stages[stage].reductions)
    wanted.push_back(reduced.getDefiningOp<ReduceOp>().getValue());
  for (int64_t index : stages[stage].emitted)
    wanted.push_back(sweep.getEmit().getOperand(index));
  walkBack(wanted, [&](Value value) {
    Depth depth = depths.lookup(value);
    Operation *op = value.getDefiningOp();
    bool waits = depth.varies && depth.stage < stage && !isa_and_present<DrawOp>(op);
    if (waits)
      stages[depth.stage].kept.insert(value);
    return !waits && op && op->getParentOp() == sweep && !isa<ReduceOp>(op);
  });
}

// What a reduction and others both compute of what is looked up.
static SmallVector<Value> getCommon(ReduceOp reduce, const Depths &depths) {
  DenseSet<Operation *> own{reduce}; // what nobody else needs
  for (Operation &op : llvm::reverse(*reduce->getBlock()))
    if (!op.use_empty() && llvm::all_of(op.getUsers(), [&](Operation *user) { return own.contains(user); }))
      own.insert(&op);
  SmallVector<Value> common;
  walkBack(reduce.getValue(), [&](Value value) {
    bool usesBook = depths.lookup(value).usesBook, isOwn = own.contains(value.getDefiningOp());
    if (usesBook && !isOwn)
      common.push_back(value);
    return usesBook && isOwn;
  });
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
static SmallVector<Stage> buildBlockStages(SweepOp sweep, const Target &target) {
  Region &body = sweep.getBody();
  unsigned begin =
      target.cpu.fastBooks && sweep.getBlock() % codesPerDecode == 0 && llvm::any_of(body.front(), isBookDecoded);
  Depths depths = measureDepths(sweep, begin, [&](Operation &op, Depth &depth) {
    if (isa<ReduceOp>(op))
      depth = {depth.stage + 1, false};
    else if (begin && isBookDecoded(op))
      depth = {0, true};
    if (isa<DecodeOp>(op))
      depth.usesBook = getTable(&op) != nullptr;
  });
  unsigned last = std::max(begin, getLastStage(depths));
  SmallVector<Stage> stages(last + 1);
  auto getStage = [&](Value value) { return std::max(depths.lookup(value).stage, begin); };
  for (ReduceOp reduce : getBlockReductions(body))
    stages[getStage(reduce.getValue())].reductions.push_back(reduce);
  for (auto [index, value] : llvm::enumerate(sweep.getEmit().getValues()))
    stages[target.isPtx() ? last : getStage(value)].emitted.push_back(index);
  if (!target.isPtx())
    for (unsigned stage = 1; stage <= last; ++stage)
      addKeptValues(stage, sweep, stages, depths);
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
static bool usesWordPairs(SweepOp sweep, const Target &target) {
  auto isWide = [](Operation &op) {
    return llvm::any_of(op.getResultTypes(),
                        [&](Type type) { return type.getIntOrFloatBitWidth() > (isa<DrawOp>(op) ? 16 : 32); });
  };
  return !target.isPtx() && isAllBf16(sweep) && sweep.getReduced().empty() && !sweep.getTiles() && !sweep.usesTiles() &&
         llvm::none_of(sweep.getBody().front(), isWide);
}

// Cut before the last of slow operations in a row, each stage has several elements under way. The first one overwrites
// streams that it stores: it loads them, too.
static SmallVector<Stage> buildWordStages(SweepOp sweep, unsigned serialDivisions) {
  Depths depths =
      measureDepths(sweep, 0, [](Operation &op, Depth &depth) { depth.stage += depth.varies && isSlow(&op); });
  unsigned most = getLastStage(depths);
  bool isCut = serialDivisions && most >= serialDivisions;
  SmallVector<Stage> stages(1 + isCut);
  SmallVector<Value> early;
  for (auto [index, value] : llvm::enumerate(sweep.getEmit().getValues())) {
    bool isLate = isCut && depths.lookup(value).stage == most;
    stages[isLate].emitted.push_back(index);
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
  for (int64_t index : stages[0].emitted)
    for (auto [number, stream] : llvm::enumerate(sweep.getLoads()))
      if (stream == sweep.getStores()[index])
        loaded.set(number);
  for (auto &[value, depth] : depths) {
    auto argument = dyn_cast<BlockArgument>(value);
    depth.stage = argument ? !loaded[argument.getArgNumber()] : !first.contains(value.getDefiningOp());
  }
  addKeptValues(1, sweep, stages, depths);
  return stages;
}

namespace {
struct CutStages : altgrad::impl::CutStagesPassBase<CutStages> {
  using CutStagesPassBase::CutStagesPassBase;

  void runOnOperation() override {
    if (failed(checkForm(getOperation(), getArgument(), Form::Phases, Form::Phases, /*inPhases=*/true)))
      return signalPassFailure();
    auto cut = [](PhaseOp, SweepOp sweep, const Target &machine) {
      if (sweep && sweep.usesTiles())
        cutTiles(sweep);
      if (sweep && isBlockwise(sweep))
        append(sweep, buildBlockStages(sweep, machine));
      else if (sweep && usesWordPairs(sweep, machine))
        append(sweep, buildWordStages(sweep, machine.cpu.serialDivisions));
      return success();
    };
    if (failed(forEachPhase(getOperation(), target, cut)))
      signalPassFailure();
  }
};
} // namespace
