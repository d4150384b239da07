// Puts a request into altgrad-opt's words.
#include "optim/Request.h"
#include "altgrad/rule_files.h"
#include "core/altgrad_storage.h"
#include "core/table.h"
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
  TORCH_CHECK(file && text << file.rdbuf(), "altgrad: cannot read the rule '", path, "': ", strerror(errno));
  return text.str();
}

// A request has an option on each line.
void checkLine(const char *what, const std::string &text) {
  TORCH_CHECK(text.find_first_of(std::string("\n\r\0", 3)) == std::string::npos, "altgrad: the ", what,
              " has more than one line");
}

} // namespace

Compiler::Compiler(RuleSpec given) : spec(std::move(given)) {
  TORCH_CHECK(!spec.rule().empty() || !spec.text().empty(),
              "altgrad: neither the name of a rule nor its text is given");
  checkLine("name of the rule", spec.rule());
  checkLine("storage", spec.storage());
  checkLine("rule path", spec.rule_path());
  if (spec.text().empty() && isRuleFile(spec.rule())) {
    spec.text(readText(spec.rule()));
    spec.rule("");
  }
  storage = altgrad_core_in_full(spec.storage().c_str());
  checkTable(altgrad_core_check_storage(storage.c_str()));
  for (const char *tensor : {"param", "grad"}) {
    const std::string word = wordOf(tensor);
    const bool rounds = tensor[0] == 'p' && word.find(',') != std::string::npos;
    TORCH_CHECK(word.empty() || rounds, "altgrad: storage '", tensor, "=", word,
                "': parameters and gradients are stored as their tensors are");
  }
  copy_ = wordOf("copy");
  if (const std::string rungs = wordOf("rungs"); !rungs.empty()) {
    altgrad_core_word of;
    checkTable(altgrad_core_word_of(rungs.c_str(), &of));
    codes_ = ScalarType(of.dtype);
  }
}

std::string Compiler::wordOf(const std::string &stream) const {
  std::istringstream words(storage);
  for (std::string word; words >> word;)
    if (word.rfind(stream + "=", 0) == 0)
      return word.substr(stream.size() + 1);
  return "";
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
  const auto &program = compile({head + " param=f32 grad=f32 states=f32 step=f32"}, /*onHost=*/true, Joined::Nothing, "");
  const c10::ArrayRef<Stream> states = entries(program->sets[0].states);
  std::string others;
  for (const auto &named : spec.state_names())
    if (std::none_of(states.begin(), states.end(), [&](const Stream &stream) { return stream.key == named.first; }))
      others += named.first + " ";
  return others;
}

std::string Compiler::setLine(const std::string &rule, const std::string &options, ScalarType type, ScalarType grad,
                              bool small, bool several) {
  checkLine("list of options", rule + options);
  const std::string name = rule.empty() ? spec.rule() : rule;
  const std::string others =
      several ? othersOf("rule=" + name + (options.empty() ? "" : "{" + options + "}")) : std::string();
  altgrad_core_line of{};
  of.rule = name.c_str();
  of.options = options.c_str();
  of.storage = storage.c_str();
  of.others = others.c_str();
  of.param = int32_t(type);
  of.grad = int32_t(grad);
  of.small = small;
  const char *line = nullptr;
  checkTable(altgrad_core_set_line(&of, &line));
  return line;
}

const std::shared_ptr<const Program> &Compiler::compile(const std::set<std::string> &lines, bool onHost, Joined joined,
                                                        const std::string &scaler) {
  std::shared_ptr<const Program> &program = programs[{lines, onHost, joined, scaler}];
  if (program)
    return program;
  std::string options;
  for (const std::string &line : lines)
    options += "--set=" + line + "\n";
  options += targetsFor(onHost);
  if (spec.max_grad_norm())
    options += spec.clip().empty() ? "\n--clip" : "\n--clip=" + spec.clip();
  if (!spec.profile().empty())
    options += "\n--profile=" + spec.profile();
  if (spec.statistics())
    options += "\n--statistics";
  if (!scaler.empty())
    options += "\n--loss-scaler=" + scaler;
  if (joined != Joined::Nothing)
    options += "\n--exchange";
  if (joined == Joined::Products)
    options += "\n--expect-remote-products";
  if (!spec.rule_path().empty())
    options += "\n--rule-path=" + spec.rule_path();
  program = compileProgram(options, spec.text(), spec.compiler());
  if (!onHost && isTrue(altgrad_table_own_products(program->bundle.get(), /*alone=*/!spec.all_gather())))
    program = compileProgram(options + "\n--own-products", spec.text(), spec.compiler());
  for (const Scalar &single : program->singles) {
    bool ofScaler =
        single.role == ALTGRAD_ROLE_SCALE || single.role == ALTGRAD_ROLE_SCALER || single.role == ALTGRAD_ROLE_FLAG;
    TORCH_CHECK(single.role == ALTGRAD_ROLE_MAX_NORM || single.role == ALTGRAD_ROLE_RANDOM ||
                    single.role == ALTGRAD_ROLE_NORM || single.role == ALTGRAD_ROLE_HISTORY ||
                    single.role == ALTGRAD_ROLE_STATISTIC || (ofScaler && !scaler.empty()),
                "altgrad: nobody gives the step its '", single.name, "'");
  }
  // A further copy is for others to look at.
  for (const Set &set : program->sets)
    for (const Stream &stream : entries(set.states))
      TORCH_CHECK(stream.role != ALTGRAD_ROLE_COPY || stream.packed ||
                      !c10::isIntegralType(typeOf(stream), /*includeBool=*/false),
                  "altgrad: torch has no type for the format of '", stream.name,
                  "'; a copy is stored in one of f32, bf16, f16, ocp.e4m3fn, "
                  "ocp.e5m2, or in mxfp4 or nvfp4");
  return program;
}
