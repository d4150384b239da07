// The manifest of a bundle: what the runtime and people need to know of it.
#include "codegen/abi/Manifest.h"

#include "altgrad/bundle.h"
#include "codegen/abi/Launches.h"
#include "codegen/abi/Layout.h"

using namespace mlir;
using namespace altgrad;

static std::string formatName(FormatAttr format) {
  if (StringRef name = format.getKnownName(); !name.empty())
    return name.str();
  std::string text;
  llvm::raw_string_ostream(text) << format;
  return text;
}

// A set, or null: of the step, or of every set.
static llvm::json::Value getSet(std::optional<unsigned> set) {
  return set ? llvm::json::Value(*set) : llvm::json::Value(nullptr);
}

// What streams and scalars are both described by.
static llvm::json::Object describe(StepOp step, const Binding &binding) {
  BlockArgument argument = binding.argument;
  return llvm::json::Object{{"name", step.getName(argument)},
                            {"key", step.getKey(argument)},
                            {"role", stringifyRole(step.getRole(argument))},
                            {"access", stringifyAccess(step.getAccess(argument))},
                            {"slot", binding.slot},
                            {"set", getSet(binding.set)}};
}

// What a list has a value for: an element, a column, or an element of a square.
static StringRef describeGeometry(BlockAttr block) {
  return block.isColumn() ? "column" : !block.isSquare() ? "element" : block.isRowSquare() ? "rows" : "columns";
}

static llvm::json::Object describeStream(StepOp step, const Binding &binding) {
  auto tensors = cast<TensorsType>(binding.argument.getType());
  FormatAttr format = tensors.getFormat();
  llvm::json::Object stream = describe(step, binding);
  stream["format"] = formatName(format);
  stream["bits"] = tensors.getPacked() ? 4 : format.getBytes() * 8;
  stream["even"] = !tensors.getPacked() ? "none" : format.toFormat().evenIsHigh() ? "high" : "low";
  BlockAttr block = tensors.getBlock();
  stream["block"] = block.getLength();
  stream["columns"] = block.isOverRows() ? block.getColumns() : 0;
  if (block.hasOwnWalk()) {
    stream["block"] = 1;
    stream["per"] = describeGeometry(block);
  }
  return stream;
}

static llvm::json::Object describeScalar(StepOp step, const Binding &binding) {
  BlockArgument argument = binding.argument;
  std::string type;
  llvm::raw_string_ostream(type) << argument.getType();
  llvm::json::Object scalar = describe(step, binding);
  scalar["type"] = type;
  scalar["scope"] = stringifyScope(step.getScope(argument));
  auto value = cast_or_null<FloatAttr>(step.getDefault(argument));
  scalar["default"] = value ? llvm::json::Value(value.getValueAsDouble()) : llvm::json::Value(nullptr);
  return scalar;
}

namespace {
struct Traffic { // bytes per element
  double read = 0, written = 0;
  double total() const { return read + written; }
};
} // namespace

// Of sweeps: what a product moves is not so much for each element.
static Traffic getTraffic(PhaseOp phase) {
  if (phase.getPhaseKind() == PhaseKind::Matrix)
    return {};
  return {phase.getBytesRead(), phase.getBytesWritten()};
}

// What a row of the table is, of a set.
static StringRef getUnits(StepOp step, unsigned set) {
  auto multipliesUnits = [&](PhaseOp phase) {
    return phase.getSet().value_or(0) == set &&
           llvm::any_of(phase.getBody().getOps<MultiplyOp>(), [](MultiplyOp product) { return product.getUnits(); });
  };
  if (llvm::any_of(step.getBody().getOps<PhaseOp>(), multipliesUnits))
    return "matrices";
  constexpr StringLiteral words[] = {"none", "given", "rows"};
  return words[unsigned(step.getRowKind(set))];
}

// An operand of a product of matrices that say their rows and columns: the bytes of lists before it, or the number of a
// list of squares among those of its kind; of the caller's where a table has its address.
static llvm::json::Object describeOperand(Value list, bool transposed) {
  auto spill = list.getDefiningOp<SpillOp>();
  BlockAttr block = cast<TensorsType>(list.getType()).getBlock();
  if (!spill) {
    auto step = cast<StepOp>(list.getParentBlock()->getParentOp());
    const Binding stream = getLayout(step).bindings[cast<BlockArgument>(list).getArgNumber()];
    return llvm::json::Object{{"of", describeGeometry(block)},
                              {"table", step.getAccess(stream.argument) == Access::In ? "inputs" : "rows"},
                              {"list", int64_t(stream.slot)},
                              {"transposed", transposed}};
  }
  return llvm::json::Object{{"of", describeGeometry(block)},
                            {"list", int64_t(block.isSquare() ? getColumnIndex(spill) : bytesBefore(spill))},
                            {"transposed", transposed}};
}

static llvm::json::Object describeGeneral(MultiplyOp product) {
  return llvm::json::Object{{"form", stringifyProductForm(product.getForm())},
                            {"format", formatName(product.getInto().getType().getFormat())},
                            {"left", describeOperand(product.getLeft(), product.getLeftTransposed())},
                            {"right", describeOperand(product.getRight(), product.getRightTransposed())},
                            {"into", describeOperand(product.getInto(), false)},
                            {"root", product.getFactor().convertToDouble()}};
}

static llvm::json::Object describeProduct(MultiplyOp product) {
  auto offset = [](Value list) { return int64_t(bytesBefore(list.getDefiningOp<SpillOp>())); };
  llvm::json::Value added = nullptr;
  if (Value list = product.getAdded())
    added = offset(list);
  return llvm::json::Object{{"form", stringifyProductForm(product.getForm())},
                            {"format", formatName(product.getInto().getType().getFormat())},
                            {"left", offset(product.getLeft())},
                            {"right", offset(product.getRight())},
                            {"added", std::move(added)},
                            {"into", offset(product.getInto())},
                            {"alone", product.getAlone()},
                            {"factor", product.getFactor().convertToDouble()},
                            {"weight", product.getWeight().convertToDouble()},
                            {"shift", product.getShift().convertToDouble()},
                            {"least", product.getLeast().convertToDouble()},
                            {"below", product.getBelow() ? llvm::json::Value(product.getBelow()->convertToDouble())
                                                         : llvm::json::Value(nullptr)}};
}

static llvm::json::Object describePhase(PhaseOp phase) {
  Traffic traffic = getTraffic(phase);
  llvm::json::Object described{{"name", phase.getName()},
                               {"symbol", getSymbol(phase)},
                               {"kind", stringifyPhaseKind(phase.getPhaseKind())},
                               {"domain", stringifyDomain(phase.getDomain())},
                               {"set", getSet(phase.getSet())},
                               {"per_block", itemsPerBlock(phase)},
                               {"finishes", int64_t(getEpiloguePhases(phase).size())},
                               {"block", phase.getBlock()},
                               {"tiles", phase.getTileRows()},
                               {"read", traffic.read},
                               {"written", traffic.written}};
  if (SweepOp sweep = phase.getSweep(); sweep && sweep.getWalk() != Walk::Chunks)
    described["walk"] = stringifyWalk(sweep.getWalk());
  if (phase.getPhaseKind() == PhaseKind::Matrix) {
    llvm::json::Array products;
    for (auto product : phase.getBody().getOps<MultiplyOp>())
      products.push_back(product.getForm() > ProductForm::Side ? describeGeneral(product) : describeProduct(product));
    described["products"] = std::move(products);
  }
  return described;
}

// What a phase keeps for other devices' shares to join: maxima and named sums of rules, which wait for a reader, or
// others.
static llvm::json::Array exchangedWords(PhaseOp phase, bool wait) {
  llvm::json::Array words;
  for (auto store : phase.getBody().getOps<WorkspaceStoreOp>()) {
    auto total = store.getValue().getDefiningOp<TotalOp>();
    std::optional<Reduction> share = total ? total.getShare() : std::nullopt;
    if (!share || (share == Reduction::Max || total.getSum()) != wait)
      continue;
    llvm::json::Object word{{"word", int64_t(store.getWord())}, {"reduction", stringifyReduction(*share)}};
    if (total.getSum())
      word["sum"] = *total.getSum();
    words.push_back(std::move(word));
  }
  return words;
}

static void addPartials(PhaseOp phase, int64_t next, llvm::json::Array &partials) {
  for (auto store : phase.getBody().getOps<WorkspaceStoreOp>())
    if (auto fold = store.getValue().getDefiningOp<FoldOp>())
      partials.push_back(llvm::json::Object{{"phase", next},
                                            {"set", int64_t(phase.getSet().value_or(0))},
                                            {"word", int64_t(store.getWord())},
                                            {"reduction", stringifyReduction(fold.getReduction())}});
}

namespace {
// Which words are exchanged, and before which phase. Norms and verdicts are as soon as they are known. Maxima and sums
// of rules wait for each other, so that programs of other sets stop as often, in the same order: until one of them is
// read, or behind the last of them.
class Exchanges {
public:
  /// `next` is the number of the phase that follows.
  void add(PhaseOp phase, int64_t next) {
    if (llvm::json::Array words = exchangedWords(phase, /*wait=*/false); !words.empty())
      exchange(next, std::move(words));
    for (llvm::json::Value word : exchangedWords(phase, /*wait=*/true))
      waiting.push_back(std::move(word)), known = next;
  }
  void beforeReads(PhaseOp phase, int64_t number) {
    auto isRead = [&](const llvm::json::Value &word) {
      return llvm::any_of(phase.getBody().getOps<WorkspaceLoadOp>(), [&](WorkspaceLoadOp load) {
        return load.getSpace() == Space::Step && int64_t(load.getWord()) == word.getAsObject()->getInteger("word");
      });
    };
    if (llvm::any_of(waiting, isRead))
      exchange(number, std::exchange(waiting, {}));
  }
  llvm::json::Array finish() {
    if (!waiting.empty())
      exchange(known, std::move(waiting));
    llvm::json::Array list;
    for (auto &[phase, words] : all)
      list.push_back(llvm::json::Object{{"phase", phase}, {"words", std::move(words)}});
    return list;
  }

private:
  void exchange(int64_t phase, llvm::json::Array words) {
    auto later = llvm::find_if(all, [&](const auto &other) { return other.first > phase; });
    all.insert(later, {phase, std::move(words)});
  }

  std::vector<std::pair<int64_t, llvm::json::Array>> all;
  llvm::json::Array waiting;
  int64_t known = 0; // the last of them, before this phase
};
} // namespace

llvm::json::Object altgrad::writeManifest(StepOp step, ArrayRef<const Target *> targets) {
  llvm::json::Array streams, scalars, phases, partials, host, ptx, units;
  Exchanges exchanges;
  Layout layout = getLayout(step);
  Workspace space = getWorkspace(step);
  for (const Binding &binding : layout.bindings)
    if (binding.isStream)
      streams.push_back(describeStream(step, binding));
    else
      scalars.push_back(describeScalar(step, binding));
  for (auto phase : step.getBody().getOps<PhaseOp>()) {
    exchanges.beforeReads(phase, int64_t(phases.size()));
    phases.push_back(describePhase(phase));
    if (!phase.getExchange())
      continue;
    if (phase.getDomain() == Domain::Rows) {
      addPartials(phase, int64_t(phases.size()), partials);
      continue;
    }
    exchanges.add(phase, int64_t(phases.size()));
  }
  for (unsigned set : llvm::seq(step.getSetCount()))
    units.push_back(getUnits(step, set));
  llvm::json::Object workspace{{"step_words", space.stepWords},
                               {"row_words", space.rowWords},
                               {"chunk_words", space.chunkWords},
                               {"spills", space.spills}};
  if (ColumnLists columns = getColumnLists(step); columns.lists)
    workspace["columns"] =
        llvm::json::Object{{"slot", *layout.columnSlot}, {"lists", columns.lists}, {"runs", columns.runs}};
  if (SquareLists squares = getSquareLists(step))
    workspace["squares"] = llvm::json::Object{{"slot", *layout.squareSlot},
                                              {"rows", squares.ofRows},
                                              {"columns", squares.ofColumns},
                                              {"row_words", squares.rowWords},
                                              {"column_words", squares.columnWords}};
  for (const Target *target : targets)
    (target->isPtx() ? ptx : host).push_back(target->isPtx() ? target->name : target->suffix);
  return llvm::json::Object{{"altgrad", int(ALTGRAD_ABI)},
                            {"producer", "altgrad " ALTGRAD_VERSION},
                            {"step", step.getSymName()},
                            {"host", std::move(host)},
                            {"ptx", std::move(ptx)},
                            {"row_words", ALTGRAD_ROW_HEADER + layout.rowPointers},
                            {"inputs", layout.inputs},
                            {"sets", step.getSetCount()},
                            {"units", std::move(units)},
                            {"group_scalars", layout.groupScalars},
                            {"step_scalars", layout.stepScalars},
                            {"streams", std::move(streams)},
                            {"scalars", std::move(scalars)},
                            {"workspace", std::move(workspace)},
                            {"phases", std::move(phases)},
                            {"exchanges", exchanges.finish()},
                            {"partials", std::move(partials)}};
}

static std::vector<Traffic> getTraffic(StepOp step) {
  std::vector<Traffic> traffic(step.getSetCount());
  for (auto phase : step.getBody().getOps<PhaseOp>()) {
    Traffic own = getTraffic(phase);
    traffic[phase.getSet().value_or(0)].read += own.read;
    traffic[phase.getSet().value_or(0)].written += own.written;
  }
  return traffic;
}

// Of products, for each element: with n for a tensor's shorter and m for its longer side; a product and a sum
// count as two, and a symmetric result as a whole one.
static void writeProducts(llvm::raw_ostream &out, ArrayRef<MultiplyOp> products) {
  if (unsigned general = llvm::count_if(products, [](MultiplyOp op) { return op.getForm() > ProductForm::Side; })) {
    unsigned found = llvm::count_if(products, [](MultiplyOp op) { return op.getForm() > ProductForm::Matmul; });
    out << general - found << " products of matrices"
        << (found ? ", " + std::to_string(found) + " factorizations" : "");
    return;
  }
  unsigned squares =
      llvm::count_if(products, [](MultiplyOp product) { return product.getForm() == ProductForm::Square; });
  out << products.size() << " products of matrices n x m, n <= m: " << 2 * (products.size() - squares) << " n";
  if (squares)
    out << " + " << 2 * squares << " n^2/m";
  out << " flops";
}

static void writeProducts(llvm::raw_ostream &out, PhaseOp phase) {
  auto all = llvm::to_vector(phase.getBody().getOps<MultiplyOp>());
  double ratio = 0; // where forms differ
  for (MultiplyOp product : all)
    if (product.getBelow())
      ratio = product.getBelow()->convertToDouble();
  auto areDone = [&](double sides) {
    return llvm::filter_to_vector(all, [&](MultiplyOp product) {
      return sides >= product.getLeast().convertToDouble() &&
             !(product.getBelow() && sides >= product.getBelow()->convertToDouble());
    });
  };
  writeProducts(out, areDone(1));
  if (ratio) {
    out << "; from " << llvm::format("%g", ratio) << " n on ";
    writeProducts(out, areDone(ratio));
  }
}

static constexpr StringLiteral legend =
    "legend: a line is a phase: its name; what it is done for (chunks: every 4096 elements, "
    "rows: every tensor,\n"
    "  once: the step); the bytes per element that it reads and writes and its operations on "
    "numbers, or what it\n"
    "  computes. \"by the last block\": without a launch of its own on a GPU. A model's time is "
    "bytes over a rate:\n"
    "  nothing was run or measured.\n";

static double bytesOfSquares(ValueRange lists) {
  double bytes = 0;
  for (Value list : lists)
    bytes += cast<TensorsType>(list.getType()).getFormat().getBytes();
  return bytes;
}

// What squares weigh beside the elements of their tensor.
static void writeSquares(llvm::raw_ostream &out, StepOp step) {
  double rows = 0, columns = 0;
  for (BlockArgument argument : step.getBody().getArguments())
    if (auto type = dyn_cast<TensorsType>(argument.getType()); type && type.isSquare())
      (type.getBlock().isRowSquare() ? rows : columns) += type.getFormat().getBytes();
  SquareLists lists = getSquareLists(step);
  if (rows || columns || lists)
    out << "  squares: " << formatBytes(rows) << " bytes of states for each of rows x rows, " << formatBytes(columns)
        << " for each of columns x columns; workspace " << 4 * lists.ofRows << " and " << 4 * lists.ofColumns << "\n";
}

static void writePhase(llvm::raw_ostream &out, PhaseOp phase, bool sets, bool finishes) {
  out << "  " << llvm::left_justify(phase.getName(), 10) << " "
      << llvm::left_justify(stringifyDomain(phase.getDomain()), 7);
  switch (phase.getPhaseKind()) {
  case PhaseKind::Sweep:
    if (SweepOp sweep = phase.getSweep(); sweep.getWalk() >= Walk::RowSquares)
      out << formatBytes(bytesOfSquares(sweep.getLoads())) << " read, "
          << formatBytes(bytesOfSquares(sweep.getStores())) << " written for each of "
          << (sweep.getWalk() == Walk::RowSquares ? "rows x rows" : "columns x columns");
    else
      out << formatBytes(phase.getBytesRead()) << " read, " << formatBytes(phase.getBytesWritten()) << " written, "
          << formatBytes(phase.getFlops()) << " flops";
    break;
  case PhaseKind::Matrix:
    writeProducts(out, phase);
    break;
  case PhaseKind::Fold:
    out << phase.count<FoldOp>() << " reductions" << (phase.getExchange() ? ", then an exchange" : "");
    break;
  case PhaseKind::Total:
    out << phase.count<TotalOp>() << " reductions, then an exchange";
    break;
  case PhaseKind::Scalars:
    out << phase.countScalars() << " scalar operations";
  }
  if (sets && phase.getSet())
    out << ", set " << *phase.getSet();
  out << (finishes ? ", by the last block\n" : "\n");
}

// The rate of a copy in GPU memory: of the 4.8 and 1.94 TB/s in NVIDIA's datasheets about nine tenths.
static constexpr std::pair<StringLiteral, double> machines[] = {{"H200", 4.3e12}, {"A100-80GB", 1.75e12}};

std::string altgrad::writeReport(StepOp step) {
  std::string text;
  llvm::raw_string_ostream out(text);
  std::vector<Traffic> traffic = getTraffic(step);
  bool sets = traffic.size() > 1;
  SmallVector<PhaseOp> phases(step.getBody().getOps<PhaseOp>());
  auto count = llvm::count_if(phases, [](PhaseOp phase) { return phase.getPhaseKind() == PhaseKind::Sweep; });
  out << "step " << step.getSymName() << ": " << count << (count == 1 ? " sweep, " : " sweeps, ");
  auto bytes = [&](const Traffic &set) {
    out << formatBytes(set.total()) << " bytes per element (" << formatBytes(set.read) << " read, "
        << formatBytes(set.written) << " written)";
  };
  if (sets)
    out << traffic.size() << " sets of tensors";
  else
    bytes(traffic[0]);
  unsigned launches = countLaunches(step);
  out << ", " << launches << (launches == 1 ? " launch\n" : " launches\n");
  size_t finished = 0; // of the phases to come, by the last launch's last block
  for (PhaseOp phase : phases) {
    writePhase(out, phase, sets, finished);
    finished = finished ? finished - 1 : getEpiloguePhases(phase).size();
  }
  writeSquares(out, step);
  for (auto [index, set] : llvm::enumerate(traffic)) {
    if (sets) {
      out << "  set " << index << ": ";
      bytes(set);
      out << "\n";
    }
    for (auto [machine, bytesPerSecond] : machines)
      out << llvm::formatv("  model: {0:F2} ms for 10^9 elements at {1:F2} TB/s, the "
                           "rate of a copy on {2}\n",
                           set.total() * 1e9 / bytesPerSecond * 1e3, bytesPerSecond / 1e12, machine);
  }
  out << legend;
  return text;
}
