// Compiles a rule through the C ABI and reads its manifest.
#include "Program.h"

#include <c10/util/Exception.h>

#include <nlohmann/json.hpp>
#include <sstream>

using namespace altgrad::optim;
using c10::ScalarType;
using nlohmann::json;

namespace {

struct Format {
  ScalarType type;
  const char *name;
};
constexpr Format formats[] = {{ScalarType::Float, "f32"},
                              {ScalarType::BFloat16, "bf16"},
                              {ScalarType::Half, "f16"},
                              {ScalarType::Float8_e4m3fn, "ocp.e4m3fn"},
                              {ScalarType::Float8_e5m2, "ocp.e5m2"}};

std::string formatName(ScalarType type) {
  for (const Format &format : formats)
    if (format.type == type && type != ScalarType::Float8_e4m3fn &&
        type != ScalarType::Float8_e5m2)
      return format.name;
  TORCH_CHECK(false, "altgrad: a parameter is ", toString(type),
              ", expected Float, BFloat16 or Half");
}

ScalarType typeOf(const std::string &stream, const std::string &name) {
  for (const Format &format : formats)
    if (name == format.name)
      return format.type;
  TORCH_CHECK(false, "altgrad: stream '", stream, "' is stored as ", name,
              ", which torch has no type for");
}

std::string storageOf(const RuleSpec &spec, ScalarType paramType) {
  std::istringstream words(spec.storage());
  std::string format = formatName(paramType);
  std::string line = "param=" + format + " grad=" + format;
  for (std::string word; words >> word;) {
    TORCH_CHECK(word.rfind("param=", 0) != 0 && word.rfind("grad=", 0) != 0,
                "altgrad: storage '", word,
                "': parameters and gradients are stored as their tensors are");
    line += " " + word;
  }
  return line;
}

std::string keyOf(const RuleSpec &spec, const std::string &name,
                  const std::string &otherwise) {
  auto found = spec.state_names().find(name);
  return found == spec.state_names().end() ? otherwise : found->second;
}

void readStreams(const json &manifest, const RuleSpec &spec, Program &program) {
  for (const json &entry : manifest.at("streams")) {
    Stream stream;
    stream.name = entry.at("name").get<std::string>();
    stream.type = typeOf(stream.name, entry.at("format").get<std::string>());
    std::string role = entry.at("role").get<std::string>();
    stream.role = role == "grad"     ? Role::Grad
                  : role == "master" ? Role::Master
                  : role == "copy"   ? Role::Copy
                  : role == "param"  ? Role::Param
                                     : Role::State;
    if (stream.role != Role::Param && stream.role != Role::Grad)
      stream.key = keyOf(spec, stream.name, stream.name);
    program.streams.push_back(std::move(stream));
  }
}

void readScalars(const json &manifest, const RuleSpec &spec, Program &program) {
  for (const json &entry : manifest.at("scalars")) {
    std::string name = entry.at("name").get<std::string>();
    std::string role = entry.at("role").get<std::string>();
    const json &value = entry.at("default");
    if (role == "hyper") {
      program.hypers.push_back(
          {name, value.is_null() ? std::nullopt
                                 : std::optional<double>(value.get<double>())});
    } else if (role == "step") {
      program.step = name;
      program.stepKey = keyOf(spec, name, "step");
      program.stepType =
          entry.at("type") == "f32" ? ScalarType::Float : ScalarType::Long;
    } else {
      TORCH_CHECK(name == "max_norm" || name == "norm", "altgrad: scalar '",
                  name, "' of the step has no place in this optimizer");
    }
  }
}

// The sweeps of the norm come first, and the scalars that follow them know it.
void readPhases(const json &manifest, Program &program) {
  bool swept = false;
  for (const json &phase : manifest.at("phases")) {
    ++program.normPhases;
    swept |= phase.at("domain") == "chunks";
    if (swept && phase.at("domain") == "once")
      return;
  }
}

// The states that are to be stored as the parameter is, in altgrad-opt's words.
std::string unnamedStates(const RuleSpec &spec, const Program &program,
                          const std::string &format) {
  std::string words = " " + spec.storage(), line;
  for (const Stream &stream : program.streams)
    if (stream.role == Role::State &&
        words.find(" " + stream.name + "=") == std::string::npos)
      line += " " + stream.name + "=" + format;
  return line;
}

std::shared_ptr<const Program> compileAs(const RuleSpec &spec,
                                         const std::string &options,
                                         const std::string &storage) {
  std::string lines = "--rule=" + spec.rule();
  if (!options.empty())
    lines += "{" + options + "}";
  lines += "\n--storage=" + storage;
  lines += "\n--target=x86-64-v3,x86-64-v4";
  if (spec.max_grad_norm())
    lines += "\n--clip";
  if (!spec.rule_path().empty())
    lines += "\n--rule-path=" + spec.rule_path();

  altgrad_bundle *bundle = nullptr;
  const std::string &text = spec.text();
  check(altgrad_compile(
      text.empty() ? nullptr : text.data(), text.size(), lines.c_str(),
      spec.compiler().empty() ? nullptr : spec.compiler().c_str(), &bundle));
  auto program = std::make_shared<Program>();
  program->bundle.reset(bundle, altgrad_bundle_free);
  json manifest = json::parse(altgrad_manifest(bundle), nullptr,
                              /*allow_exceptions=*/false);
  TORCH_CHECK(manifest.is_object(), "altgrad: the manifest is not JSON");
  readStreams(manifest, spec, *program);
  readScalars(manifest, spec, *program);
  readPhases(manifest, *program);
  return program;
}

} // namespace

void altgrad::optim::check(altgrad_status status) {
  TORCH_CHECK(status == ALTGRAD_OK, "altgrad: ", altgrad_last_error());
}

std::shared_ptr<const Program>
altgrad::optim::compile(const RuleSpec &spec, const std::string &options,
                        ScalarType paramType) {
  TORCH_CHECK(!spec.rule().empty() || !spec.text().empty(),
              "altgrad: neither the name of a rule nor its text is given");
  std::string storage = storageOf(spec, paramType);
  auto program = compileAs(spec, options, storage);
  // Only now are the states known.
  std::string more = paramType == ScalarType::Float
                         ? ""
                         : unnamedStates(spec, *program, formatName(paramType));
  return more.empty() ? program : compileAs(spec, options, storage + more);
}
