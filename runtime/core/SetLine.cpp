// The set of a parameter in the words of a request.
#include "Errors.h"
#include "Tensor.h"
#include "StorageLine.h"
#include "altgrad_core.h"

#include <algorithm>

using namespace altgrad::core;

namespace {

std::string formatOf(int32_t type) {
  if (const char *format = altgrad_core_format(type))
    return format;
  throw Refusal(ALTGRAD_INVALID, "no stream is stored as " + nameOf(type));
}

void put(Words &words, Text name, Text word) {
  for (auto &[stream, given] : words)
    if (stream == name)
      return void(given = word);
  words.emplace_back(name, word);
}

template <typename Condition> void drop(Words &words, const Condition &condition) {
  words.erase(std::remove_if(words.begin(), words.end(), condition), words.end());
}

// Whether every number of a format is one of another, wider one, that a parameter may have.
bool isNarrower(int32_t type, const altgrad_core_word &wanted) {
  const Text format = wanted.format;
  return (format == "f32" || format == "bf16" || format == "f16") &&
         aoti_torch_dtype_element_size(type) < aoti_torch_dtype_element_size(wanted.dtype);
}

class SetLine {
public:
  explicit SetLine(const altgrad_core_line &given) : of(given), own(wordsIn(given.storage)) {
    for (auto &[name, word] : own)
      if (name != "copy")
        word = wordAt(word, of.numel);
  }

  std::string make() {
    begin();
    for (int64_t i = 0; i < of.count; ++i)
      takeState(of.names[i], of.keys[i], of.dtypes[i]);
    std::string line = std::string("rule=") + of.rule;
    if (*of.options)
      line += "{" + std::string(of.options) + "}";
    for (const auto &[name, word] : words)
      line += " " + name + "=" + word;
    return line;
  }

private:
  // What the user says holds. Beside a master, and beside codes, a state in the parameter's format would stand still.
  void begin() {
    const std::string *rungs = find(own, "rungs");
    const bool codes = rungs && parse(*rungs).dtype == of.param;
    const std::string param = codes ? parse(*rungs).format : formatOf(of.param), grad = formatOf(of.grad);
    words = {
        {"param", param}, {"grad", grad}, {"step", "f32"}, {"states", codes || find(own, "master") ? "f32" : "param"}};
    for (const auto &[name, word] : own)
      put(words, name, word);
    if (of.param == aoti_torch_dtype_float32()) { // which is itself what others are with their remainder
      drop(words, [](auto &word) { return word.first == "master" && parse(word.second).split; });
      if (find(words, "param")->find(',') != std::string::npos)
        put(words, "param", "f32");
    }
    checkTensor("param", param, of.param);
    checkTensor("grad", grad, of.grad);
    const std::vector<Text> others = split(of.others, ' ');
    drop(words, [&](auto &word) { return std::find(others.begin(), others.end(), word.first) != others.end(); });
  }

  void checkTensor(const char *name, Text format, int32_t type) const {
    const std::string &word = *find(words, name);
    if (parse(word).format != format)
      throw Refusal(ALTGRAD_INVALID, std::string("storage says ") + name + "=" + word + ", but a " + name + " has " +
                                         nameOf(type));
  }

  // A state that is there may be wider than the storage says.
  void takeState(const char *name, const char *key, int32_t type) {
    const std::string *given = find(own, name), *states = find(words, "states");
    const std::string &word = given ? *given : Text(parse(*states).format) == "param" ? *find(words, "param") : *states;
    const altgrad_core_word wanted = parse(word);
    if (type < 0 || type == wanted.dtype)
      return;
    if (!altgrad_core_format(type) || wanted.scaled || wanted.split)
      throw Refusal(ALTGRAD_INVALID, std::string("state '") + key + "' is " + nameOf(type) + ", but storage says " +
                                         name + "=" + word +
                                         ": make the optimizer with the storage that its states have");
    if (!isNarrower(type, wanted)) // else it is made as wide as the storage says
      put(words, name, formatOf(type));
  }

  const altgrad_core_line &of;
  Words own, words;
};

} // namespace

altgrad_status altgrad_core_set_line(const altgrad_core_line *of, const char **out) {
  return guarded([&] {
    static thread_local std::string line;
    line = SetLine(*of).make();
    *out = line.c_str();
  });
}
