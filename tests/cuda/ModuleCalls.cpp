// Modules, their kernels and launches of them.
#include "Fake.h"
#include "Parser.h"

#include <algorithm>
#include <cstring>

using namespace fakecuda;

namespace {

// "8.4" is 84; the newest PTX that a driver for CUDA 12.4 takes.
int newestPtx(int64_t driver) {
  int64_t major = driver / 1000, minor = driver % 1000 / 10;
  if (major == 12 && minor >= 6)
    --minor; // 12.6 brought none
  return int((major - 4) * 10 + minor);
}

Result refuse(Result code, const std::string &why, unsigned count, int *options,
              void **values) {
  const std::string &words = state().jitLog.empty() ? why : state().jitLog;
  char *log = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i < count; ++i) { // CU_JIT_ERROR_LOG_BUFFER and its size
    if (options[i] == 5)
      log = static_cast<char *>(values[i]);
    if (options[i] == 6)
      room = size_t(values[i]);
  }
  if (log && room)
    snprintf(log, room, "%s", words.c_str());
  return code;
}

// What a driver for this device makes of PTX; if nothing, why.
Result compile(const char *text, std::unique_ptr<ptx::Module> &out,
               std::string &why) {
  try {
    out = ptx::parseModule(text);
  } catch (const std::exception &error) {
    fprintf(stderr, "fakecuda: PTX refused: %s\n", error.what());
    why = error.what();
    return InvalidPtx;
  }
  int major = 0, minor = 0, target = 0;
  char exact = 0;
  sscanf(out->version.c_str(), "%d.%d", &major, &minor);
  sscanf(out->target.c_str(), "sm_%d%c", &target, &exact);
  int64_t capability = state().get("capability");
  if (major * 10 + minor > newestPtx(state().get("driver"))) {
    why = "PTX " + out->version;
    return PtxVersion;
  }
  if (exact == 'a' ? target != capability : target > capability) {
    why = "target " + out->target;
    return NoBinary;
  }
  return 0;
}

// What linking makes of PTX: a text that begins so. Real cubins are not run.
const std::string cubinMark = "cubin of ";

struct Linking {
  std::string cubin;
  unsigned count;
  int *options;
  void **values;
};
std::map<void *, std::unique_ptr<Linking>> &linkings() {
  static auto *all = new std::map<void *, std::unique_ptr<Linking>>;
  return *all;
}

// CUlaunchConfig and CUlaunchAttribute of cuda.h.
struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    char room[64];
    int number;
  } value;
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void *stream;
  LaunchAttribute *attributes;
  unsigned count;
};
enum { AttributeIgnore = 0, AttributeOverlap = 6 };

// Of a kernel's handle, which may be none.
std::shared_ptr<Module> moduleOf(const void *function) {
  for (auto &one : state().modules)
    for (auto &[name, known] : one.second->functions)
      if (&known == function)
        return one.second;
  return nullptr;
}

Result launch(Function *function, const unsigned *grid, const unsigned *block,
              unsigned shared, void *handle, void **parameters, void **extra,
              Context *context, bool overlaps) {
  Stream *stream = streamOf(handle, context);
  std::shared_ptr<Module> module = moduleOf(function);
  if (!stream || !module || module->context != stream->context)
    return InvalidHandle;
  if (overlaps && stream->capture) { // since 12.3, and not here
    invalidate(*stream->capture);
    return CaptureUnsupported;
  }
  Launch made;
  made.module = module;
  made.kernel = function->kernel;
  made.stream = handle;
  made.overlaps = overlaps;
  uint64_t threads = 1, most = 1;
  for (size_t i = 0; i < 3; ++i) {
    made.options.grid[i] = grid[i];
    made.options.block[i] = block[i];
    threads *= block[i];
    most *= std::max(made.kernel->maxThreads[i], 1u);
    if (!grid[i] || !block[i] || grid[i] > (i ? 65535u : 0x7fffffffu))
      return InvalidValue;
  }
  if (threads > 1024 || (made.kernel->maxThreads[0] && threads > most))
    return InvalidValue;
  if (shared > function->mostShared)
    return InvalidValue;
  if (threads * uint64_t(registersOf(*function)) > 65536)
    return OutOfResources;
  made.options.dynamicSharedBytes = shared;
  std::vector<uint8_t> &bytes = made.options.parameters;
  bytes.resize(made.kernel->parameterBytes);
  if (parameters) {
    for (size_t i = 0; i < made.kernel->parameters.size(); ++i) {
      const ptx::Parameter &parameter = made.kernel->parameters[i];
      memcpy(bytes.data() + parameter.offset, parameters[i], parameter.bytes);
    }
  } else if (extra && extra[0] == (void *)1 && extra[2] == (void *)2) {
    size_t size = *static_cast<size_t *>(extra[3]);
    if (size != bytes.size())
      return InvalidValue;
    memcpy(bytes.data(), extra[1], size);
  } else if (!bytes.empty()) {
    return InvalidValue;
  }
  Context *owner = stream->context;
  auto replay = [made, owner] { return Running(made, *owner).run(0); };
  Result error = submit(*stream, {replay, nullptr, nullptr,
                                  std::make_shared<const Launch>(made)});
  if (!error)
    state().launches.push_back(std::move(made));
  return error;
}

} // namespace

CU(cuModuleLoadDataEx, 2010, void **out, const void *image, unsigned count,
   int *options, void **values) {
  std::lock_guard<std::recursive_mutex> held(lock());
  std::string text = static_cast<const char *>(image);
  state().images.push_back(text);
  // A log is filled whatever it is that goes wrong.
  if (!state().jitLog.empty())
    refuse(0, "", count, options, values);
  ENTER(Init | Current | Safe)
  if (Result error = findWords(state().refused, text))
    return refuse(error, "as the test wants", count, options, values);
  if (text.compare(0, 4,
                   "\x7f"
                   "ELF") == 0)
    return refuse(NoBinary, "a real cubin", count, options, values);
  if (text.compare(0, cubinMark.size(), cubinMark) == 0)
    text = text.substr(cubinMark.size());
  else
    state().lastPtx = text;
  if (state().edit) {
    std::unique_ptr<char, void (*)(void *)> edited(state().edit(text.c_str()),
                                                   free);
    text = edited.get();
  }
  auto module = std::make_shared<Module>();
  module->context = call.context;
  module->lacking = findWords(state().lacking, state().images.back());
  std::string why;
  Result error = compile(text.c_str(), module->program, why);
  if (!error)
    error = assemble(text, module->registers, why);
  if (error)
    return refuse(error, why, count, options, values);
  ptx::Module &program = *module->program;
  for (ptx::ModuleVariable &v : program.variables)
    if (v.space == ptx::Space::Global)
      module->globals.map(v.name, v.address, v.bytes.size(), v.bytes.data(), 0);
  for (auto &[name, kernel] : program.kernels)
    module->functions[name] = {module.get(), kernel.get()};
  *out = module.get();
  state().modules[*out] = module;
  return 0;
}

void fakecuda_edit(char *(*edit)(const char *)) {
  std::lock_guard<std::recursive_mutex> held(lock());
  state().edit = edit;
}

CU(cuLinkCreate, 6050, unsigned count, int *options, void **values,
   void **out) {
  ENTER(Init | Current)
  auto linking = std::make_unique<Linking>();
  *linking = {"", count, options, values};
  *out = linking.get();
  linkings()[*out] = std::move(linking);
  ++state().linking;
  return 0;
}

CU(cuLinkAddData, 6050, void *handle, int type, void *data, size_t size,
   const char *, unsigned, int *, void **) {
  ENTER(Init | Current)
  auto found = linkings().find(handle);
  if (found == linkings().end())
    return InvalidHandle;
  Linking &linking = *found->second;
  auto *text = static_cast<const char *>(data);
  // CU_JIT_INPUT_PTX, with the zero at its end.
  if (type != 1 || size != strlen(text) + 1)
    return InvalidValue;
  state().lastPtx = text;
  std::unique_ptr<ptx::Module> program;
  std::string why;
  if (Result error = compile(text, program, why))
    return refuse(error, why, linking.count, linking.options, linking.values);
  linking.cubin = cubinMark + text;
  return 0;
}

CU(cuLinkComplete, 5050, void *handle, void **out, size_t *size) {
  ENTER(Init | Current)
  auto found = linkings().find(handle);
  if (found == linkings().end())
    return InvalidHandle;
  std::string &cubin = found->second->cubin;
  if (cubin.empty())
    return InvalidValue;
  *out = cubin.data();
  *size = cubin.size() + 1;
  return 0;
}

CU(cuLinkDestroy, 5050, void *handle) {
  ENTER(Init | Current)
  if (!linkings().erase(handle))
    return InvalidHandle;
  --state().linking;
  return 0;
}

CU(cuModuleUnload, 2000, void *handle) {
  ENTER(Init | Current | Safe)
  auto module = look(state().modules, handle);
  if (!module)
    return InvalidHandle;
  waitForContext(*module->context);
  module->unloaded = true; // a graph may still have its kernels
  state().modules.erase(handle);
  return call.context->sticky;
}

CU(cuModuleGetFunction, 2000, void **out, void *handle, const char *name) {
  ENTER(Init | Current)
  auto module = look(state().modules, handle);
  if (!module)
    return InvalidHandle;
  if (module->lacking)
    return module->lacking;
  auto found = module->functions.find(name);
  if (found == module->functions.end())
    return NotFound;
  *out = &found->second;
  return 0;
}

CU(cuModuleGetGlobal, 3020, uint64_t *out, size_t *bytes, void *handle,
   const char *name) {
  ENTER(Init | Current)
  auto module = look(state().modules, handle);
  if (!module)
    return InvalidHandle;
  for (const ptx::ModuleVariable &v : module->program->variables)
    if (v.space == ptx::Space::Global && v.name == name) {
      *out = v.address;
      *bytes = v.bytes.size();
      return 0;
    }
  return NotFound;
}

CU(cuFuncGetAttribute, 2020, int *out, int attribute, void *handle) {
  ENTER(Init | Current)
  if (!moduleOf(handle))
    return InvalidHandle;
  const ptx::Kernel &kernel = *static_cast<Function *>(handle)->kernel;
  uint64_t threads = 1024;
  if (kernel.maxThreads[0])
    threads = uint64_t(kernel.maxThreads[0]) *
              std::max(kernel.maxThreads[1], 1u) *
              std::max(kernel.maxThreads[2], 1u);
  int64_t capability = state().get("capability");
  // CU_FUNC_ATTRIBUTE_...: threads, shared, const, local, registers, PTX,
  // binary
  const int64_t values[] = {int64_t(threads),
                            int64_t(kernel.sharedBytes),
                            0,
                            int64_t(kernel.localBytes),
                            registersOf(*static_cast<Function *>(handle)),
                            capability,
                            capability};
  if (attribute < 0 || attribute > 6)
    return InvalidValue;
  *out = int(values[attribute]);
  return 0;
}

CU(cuFuncSetAttribute, 9000, void *handle, int attribute, int value) {
  ENTER(Init | Current)
  if (!moduleOf(handle))
    return InvalidHandle;
  auto *function = static_cast<Function *>(handle);
  int64_t capability = state().get("capability");
  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, beside what is static.
  int64_t room = capability >= 90                       ? 227
                 : capability == 80 || capability == 87 ? 163
                                                        : 99;
  if (attribute != 8 || value < 0 ||
      uint64_t(value) + function->kernel->sharedBytes > uint64_t(room) * 1024)
    return InvalidValue;
  function->mostShared = unsigned(value);
  return 0;
}

CU(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, int *out, void *handle,
   int threads, size_t dynamicShared) {
  ENTER(Init | Current)
  if (!moduleOf(handle))
    return InvalidHandle;
  *out = residentBlocks(*static_cast<Function *>(handle), uint64_t(threads),
                        dynamicShared);
  return 0;
}

CU(cuLaunchKernel, 4000, void *function, unsigned gridX, unsigned gridY,
   unsigned gridZ, unsigned blockX, unsigned blockY, unsigned blockZ,
   unsigned shared, void *stream, void **parameters, void **extra) {
  ENTER(Init | Current)
  unsigned grid[] = {gridX, gridY, gridZ}, block[] = {blockX, blockY, blockZ};
  return launch(static_cast<Function *>(function), grid, block, shared, stream,
                parameters, extra, call.context, false);
}

CU(cuLaunchKernelEx, 11060, const void *pointer, void *function,
   void **parameters, void **extra) {
  ENTER(Init | Current)
  auto &config = *static_cast<const LaunchConfig *>(pointer);
  bool overlaps = false;
  for (unsigned i = 0; i < config.count; ++i) {
    const LaunchAttribute &attribute = config.attributes[i];
    if (attribute.id == AttributeIgnore)
      continue;
    if (attribute.id != AttributeOverlap) {
      fprintf(stderr, "fakecuda: launch attribute %d is not known\n",
              attribute.id);
      return NotSupported;
    }
    if (attribute.value.number < 0 || attribute.value.number > 1)
      return InvalidValue;
    // Programmatic dependent launch came with 9.0.
    if (attribute.value.number && state().get("capability") < 90)
      return NotSupported;
    overlaps = attribute.value.number;
  }
  return launch(static_cast<Function *>(function), config.grid, config.block,
                config.shared, config.stream, parameters, extra, call.context,
                overlaps);
}
