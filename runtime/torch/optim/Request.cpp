// Puts a request into altgrad-opt's words.
#include "optim/Request.h"
#include "altgrad/rule_files.h"
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

// "copy=ocp.e4m3fn:32:ocp.e8m0,floor" of "copy=mxfp8,floor".
std::string altgrad::optim::inFull(const std::string &word) {
  size_t begin = word.find('=') + 1, end = std::min(word.find(','), word.size());
  if (begin == 0 || begin > end)
    return word;
  const char *meaning = altgrad_scaled_preset(word.substr(begin, end - begin).c_str());
  return meaning ? word.substr(0, begin) + meaning + word.substr(end) : word;
}

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
  std::istringstream words(spec.storage());
  for (std::string word; words >> word;) {
    word = inFull(word);
    if (word.rfind("copy=", 0) == 0)
      copy_ = word.substr(strlen("copy="));
    bool rounds = word.rfind("param=", 0) == 0 && word.find(',') < word.size();
    TORCH_CHECK(rounds || (word.rfind("param=", 0) != 0 && word.rfind("grad=", 0) != 0), "altgrad: storage '", word,
                "': parameters and gradients are stored as their tensors are");
    if (rounds)
      param = word;
    else
      storage += " " + word;
  }
}

bool Compiler::cutsBlocks(int64_t unit, const at::Tensor &param) const {
  std::istringstream words(storage);
  for (std::string word; unit && words >> word;) {
    const size_t colon = word.find(':');
    const int64_t block = colon == std::string::npos || word.rfind("copy=", 0) == 0 ? 1 : atoll(&word[colon + 1]);
    if (block > 1 && unit % block) {
      TORCH_WARN_ONCE("altgrad: the states of a parameter of sizes ", param.sizes(),
                      " stay float32, because its rows of ", unit, " elements end within blocks of ", block,
                      ": choose blocks that divide them in the storage");
      return true;
    }
  }
  return false;
}

// Whether a word of storage is for a state that the rule of "rule=...{...}" has not.
bool Compiler::isOfOther(const std::string &word, const std::string &head) {
  const std::string name = word.substr(0, word.find('='));
  if (!spec.state_names().count(name))
    return false;
  const auto &program = compile({head + " param=f32 grad=f32 states=f32 step=f32"}, /*onHost=*/true, Joined::Nothing, "");
  const std::vector<Stream> &kept = program->sets[0].kept;
  return std::none_of(kept.begin(), kept.end(), [&](const Stream &stream) { return stream.key == name; });
}

std::string Compiler::setLine(const std::string &rule, const std::string &options, ScalarType type, bool small,
                              bool several) {
  checkLine("list of options", rule + options);
  std::string line = "rule=" + (rule.empty() ? spec.rule() : rule);
  if (!options.empty())
    line += "{" + options + "}";
  const std::string head = line;
  std::string format = formatOf(type), own;
  std::istringstream words(storage);
  for (std::string word; words >> word;) {
    if (several && isOfOther(word, head))
      continue;
    // An f32 parameter is itself what others are with their remainder.
    if (type == c10::kFloat && word.rfind("master=bf16+", 0) == 0)
      continue;
    own += " " + (small && word.find(':') != std::string::npos && word.rfind("copy=", 0) != 0
                      ? word.substr(0, word.find('=')) + "=f32"
                      : word);
  }
  // What is said of rounding is said of one format; f32 needs none.
  std::string rounded = "param=" + format + ",";
  bool rounds = param.rfind(rounded, 0) == 0;
  TORCH_CHECK(rounds || param.empty() || type == c10::kFloat, "altgrad: storage '", param, "', but a parameter is ",
              format);
  line += " " + (rounds ? param : "param=" + format) + " grad=" + format;
  // What the user says of all states and of the count holds. Beside a master a state in the parameter's format would
  // stand still.
  const bool wide = own.find(" master=") != std::string::npos;
  for (const char *word : {wide ? " states=f32" : " states=param", " step=f32"})
    if (own.find(std::string(word, strchr(word, '=') + 1)) == std::string::npos)
      line += word;
  return line + own;
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
  if (!onHost && isTrue(altgrad_table_own_products(program->bundle.get(), /*alone=*/true)))
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
    for (const Stream &stream : set.kept)
      TORCH_CHECK(stream.role != ALTGRAD_ROLE_COPY || stream.packed ||
                      !c10::isIntegralType(stream.type, /*includeBool=*/false),
                  "altgrad: torch has no type for the format of '", stream.name,
                  "'; a copy is stored in one of f32, bf16, f16, ocp.e4m3fn, "
                  "ocp.e5m2, or in mxfp4 or nvfp4");
  return program;
}
