// Puts a request into altgrad-opt's words.
#include "optim/Request.h"
#include "altgrad/rule_files.h"
#include "altgrad/words.h"
#include "core/altgrad_core.h"
#include "core/altgrad_storage.h"
#include "tensors/Errors.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

using namespace altgrad::optim;
using c10::ScalarType;

namespace {

std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  ALTGRAD_CHECK(file && text << file.rdbuf(), "altgrad: cannot read the rule '", path, "': ", strerror(errno));
  return text.str();
}

// Whether a word of storage is of every rule.
bool isCommon(const std::string &stream) {
  const char *const known[] = {"param", "master", "rungs", "grad", "copy", "states", "step"};
  return std::find(std::begin(known), std::end(known), stream) != std::end(known);
}

} // namespace

Compiler::Compiler(RuleSpec given, std::string entry) : spec(std::move(given)), entry(std::move(entry)) {
  ALTGRAD_CHECK(!spec.rule().empty() || !spec.text().empty(),
                "altgrad: neither the name of a rule nor its text is given");
  if (spec.text().empty() && isRuleFile(spec.rule())) {
    origin = spec.rule();
    spec.text(readText(origin));
    spec.rule("");
  }
  for (const std::string &text : {spec.rule(), spec.storage(), spec.rule_path()})
    ALTGRAD_CHECK(text.find('\0') == std::string::npos, "altgrad: '", text.c_str(), "' has a NUL behind it");
  const char *line = nullptr;
  checkTable(altgrad_core_line_by_names(spec.storage().c_str(), keysOf(spec).c_str(), &line));
  storage = line;
  checkTable(altgrad_core_check_storage(storage.c_str()));
  for (const char *tensor : {"param", "grad"}) {
    const std::string word = wordOf(storage, tensor);
    const bool rounds = tensor[0] == 'p' && word.find(',') != std::string::npos;
    ALTGRAD_CHECK(word.empty() || rounds, "altgrad: storage '", tensor, "=", word,
                  "': parameters and gradients are stored as their tensors are");
  }
  copy_ = wordOf(storage, "copy");
  if (const std::string rungs = wordOf(storage, "rungs"); !rungs.empty()) {
    altgrad_core_word of;
    checkTable(altgrad_core_word_of(rungs.c_str(), &of));
    codes_ = ScalarType(of.dtype);
  }
}

std::string altgrad::optim::keysOf(const RuleSpec &spec) {
  std::string keys;
  for (const auto &[name, key] : spec.state_names())
    keys += name + "=" + key + " ";
  return keys;
}

std::string altgrad::optim::wordOf(const std::string &line, const std::string &stream) {
  const altgrad::Words words = altgrad::wordsIn(line);
  const std::string *found = altgrad::find(words, stream);
  return found ? *found : "";
}

bool Compiler::cutsBlocks(int64_t unit, const at::Tensor &param) const {
  std::istringstream words(storage);
  for (std::string word; unit && words >> word;) {
    altgrad_core_word of;
    checkTable(altgrad_core_word_of(&word[word.find('=') + 1], &of));
    if (of.block > 1 && unit % of.block && word.rfind("copy=", 0) != 0) {
      TORCH_WARN_ONCE("altgrad: the states of a parameter of sizes ", param.sizes(),
                      " stay float32, because its rows of ", unit, " elements end within blocks of ", of.block,
                      ": choose blocks that divide them in the storage");
      return true;
    }
  }
  return false;
}

// The states that have words, and that the rule of "rule=...{...}" has not.
std::string Compiler::othersOf(const std::string &head) {
  const auto &program =
      compile({head + " param=f32 grad=f32 states=f32 step=f32"}, /*onHost=*/true, Joined::Nothing, "");
  const c10::ArrayRef<Stream> states = entries(program->sets[0].states);
  std::set<std::string> names;
  for (const auto &named : spec.state_names())
    names.insert(named.first);
  if (!entry.empty()) // of whose rule the storage has words
    for (const auto &[stream, word] : altgrad::wordsIn(storage))
      if (!isCommon(stream))
        names.insert(stream);
  std::string others;
  for (const std::string &name : names)
    if (std::none_of(states.begin(), states.end(), [&](const Stream &stream) { return stream.key == name; }))
      others += name + " ";
  return others;
}

std::string Compiler::setLine(const std::string &rule, const std::string &options, ScalarType type, ScalarType grad,
                              int64_t numel, bool several) {
  const std::string name = rule.empty() ? spec.rule() : rule;
  const std::string others = several || !entry.empty()
                                 ? othersOf("rule=" + name + (options.empty() ? "" : "{" + options + "}"))
                                 : std::string();
  altgrad_core_line of{};
  of.rule = name.c_str();
  of.options = options.c_str();
  of.storage = storage.c_str();
  of.others = others.c_str();
  of.param = int32_t(type);
  of.grad = int32_t(grad);
  of.numel = numel;
  const char *line = nullptr;
  checkTable(altgrad_core_set_line(&of, &line));
  return line;
}

const std::shared_ptr<const Program> &Compiler::compile(const std::set<std::string> &lines, bool onHost, Joined joined,
                                                        const std::string &scaler) {
  std::shared_ptr<const Program> &program = programs[{lines, onHost, joined, scaler}];
  if (program)
    return program;
  const std::string keys = keysOf(spec);
  altgrad_core_request of{};
  of.entry = entry.c_str();
  of.keys = keys.c_str();
  of.text = spec.text().c_str();
  of.size = spec.text().size();
  of.origin = origin.c_str();
  of.rule_path = spec.rule_path().c_str();
  of.clip = !spec.max_grad_norm() ? nullptr : spec.clip().empty() ? "norm" : spec.clip().c_str();
  of.numerics = spec.profile().c_str();
  of.loss_scaler = scaler.c_str();
  of.compiler = spec.compiler().c_str();
  of.statistics = spec.statistics();
  of.exchange = joined != Joined::Nothing;
  of.products = joined == Joined::Products;
  of.host = onHost;
  of.alone = !spec.all_gather();
  return program = compileProgram(of, {lines.begin(), lines.end()});
}
