// What the files of the test driver share: its objects, its memory, its queues.
#ifndef ALTGRAD_TESTS_FAKE_H
#define ALTGRAD_TESTS_FAKE_H

#include "Machine.h"
#include "fakecuda.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace fakecuda {

using Result = int;

// What cuda.h calls CUDA_ERROR_...
enum : Result {
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialised = 3,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidContext = 201,
  NoBinary = 209,
  InvalidPtx = 218,
  PtxVersion = 222,
  InvalidHandle = 400,
  IllegalState = 401,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  OutOfResources = 701,
  LaunchTimeout = 702,
  ContextDestroyed = 709,
  MisalignedAddress = 716,
  AddressSpace = 717,
  LaunchFailed = 719,
  NotSupported = 801,
  CaptureUnsupported = 900,
  CaptureInvalidated = 901,
  CaptureMerge = 902,
  CaptureUnmatched = 903,
  CaptureUnjoined = 904,
  CaptureIsolation = 905,
  CaptureImplicit = 906,
  CapturedEvent = 907,
  CaptureWrongThread = 908
};

struct Stream;
struct Event;

struct Context {
  int device = 0;
  int64_t retained = 0;
  Result sticky = 0; // of a kernel that faulted: every later call has it
  std::shared_ptr<Stream> legacy;
  std::unique_ptr<ptx::Caches> caches; // of its processors
};

// A point in a stream that is passed or not.
struct Mark {
  bool done = false;
  int64_t at = 0; // by the clock
  Stream *stream = nullptr;
};
using MarkPointer = std::shared_ptr<Mark>;

struct Launch;
class Running;

// Something for a stream to do, once or in every replay of a graph.
struct Work {
  std::function<Result()> run;
  std::shared_ptr<Event> record, wait; // external, in a graph
  std::shared_ptr<const Launch> launch = nullptr; // what run does
};

struct Task {
  std::function<Result()> run;
  std::shared_ptr<Running> kernel; // instead of run
  std::vector<MarkPointer> after;
  MarkPointer mark = std::make_shared<Mark>();
};

struct Node {
  Work work;
  std::set<size_t> after;
};

// What graphs keep until they are destroyed.
struct UserObject {
  UserObject() { ++alive; }
  UserObject(const UserObject &) = delete;
  ~UserObject();
  void *pointer = nullptr;
  void (*destroy)(void *) = nullptr;
  static inline int64_t alive = 0;
};

struct Graph {
  Context *context = nullptr;
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<UserObject>> kept;
  MarkPointer last; // launches of one executable graph follow each other
};

struct Capture {
  uint64_t id = 0;
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  Stream *origin = nullptr;
  int mode = 0;
  std::thread::id thread;
  bool invalid = false, ended = false;
  std::vector<Node> nodes; // of the graph, once it is ended
};

struct Stream {
  Context *context = nullptr;
  bool blocking = true; // ordered with the legacy default stream
  std::deque<Task> tasks;
  uint64_t urgency = 0;
  MarkPointer last;
  uint32_t lastKernel = 0; // its number, where it was the last thing done
  std::shared_ptr<Capture> capture;
  std::set<size_t> heads; // the nodes after which its next one comes
};

struct Event {
  Context *context = nullptr;
  MarkPointer mark;
  bool timed = false;
  std::shared_ptr<Capture> capture; // recorded in it, after these nodes
  std::set<size_t> heads;
  bool destroyed = false;
};

struct Module;
struct Function {
  Module *module = nullptr;
  const ptx::Kernel *kernel = nullptr;
  unsigned mostShared = 49152; // dynamic bytes of a launch
};

struct Module {
  Context *context = nullptr;
  std::unique_ptr<ptx::Module> program;
  ptx::Memory globals;
  std::map<std::string, Function> functions;
  std::map<std::string, int> registers; // of a thread, where ptxas was asked
  bool unloaded = false;
  Result lacking = 0; // what asking for a kernel returns
};

// Assembler.cpp: what ptxas says, where there is one.
Result assemble(const std::string &text, std::map<std::string, int> &registers,
                std::string &why);
int registersOf(const Function &function);
int residentBlocks(const Function &function, uint64_t threads,
                   uint64_t dynamicShared);

// Memory.cpp
Result allocate(uint64_t bytes, int device, uint64_t &out); // TheHost: pinned
bool release(uint64_t base, int device);
bool isPinned(uint64_t address, uint64_t bytes);
// Where what is behind a pointer has to be found out: TheHost or AnyDevice.
int sideOf(uint64_t address);
// Who touches memory, besides a device by its number.
enum : int { TheHost = -1, AnyDevice = -2 };
// Whether that one may touch the range; if not, why.
bool mayTouch(uint64_t address, uint64_t bytes, int device, std::string &why);
Result copyBytes(uint64_t to, uint64_t from, uint64_t bytes);
ptx::Beyond &memoryOf(int device);
bool mapRange(uint64_t base, uint64_t bytes, int device);
bool unmapRange(uint64_t base);
size_t liveAllocations();
void forgetMemory();
// While one exists, the memory of the devices can be touched by this process.
class Opened {
public:
  Opened();
  ~Opened();
};

// Work.cpp
Result submit(Stream &stream, Work work);
MarkPointer enqueue(Stream &stream, Task task);
void waitFor(const MarkPointer &mark);
void waitForStream(Stream &stream);
void waitForContext(Context &context);
void drain();
void progress(); // what the device happens to have done meanwhile
size_t pending();
Stream *streamOf(void *handle, Context *context);
Result fault(Result code, const std::string &words);
struct Launch {
  std::shared_ptr<Module> module;
  const ptx::Kernel *kernel = nullptr;
  ptx::LaunchOptions options;
  void *stream = nullptr;
  bool overlaps = false; // may begin before the one before it has ended
};

// Kernels.cpp
class Running {
public:
  Running(const Launch &launch, Context &context);
  // Up to its waits, before `other`, the one before it. `lastKernel`: the one
  // before that.
  Result begin(Running &other, uint32_t lastKernel);
  Result run(uint32_t before);
  uint32_t number() const { return machine ? machine->launchNumber : 0; }

private:
  Result prepare(uint32_t before);
  Result check(const ptx::LaunchResult &result) const;

  Launch launch;
  Context &context;
  std::unique_ptr<ptx::Machine> machine;
};

// Capture.cpp
// 900 where a call that is unsafe under capture is made beside one.
Result checkSafe();
void invalidate(Capture &capture);
// 906 where the legacy stream would wait for a captured one.
Result checkImplicit(const Stream &stream);

// UserObjects.cpp
void checkCallback(const char *name); // aborts where nobody may call the driver
void runCallbacks();                  // of those that nobody keeps any more
void forgetCallbacks();

// The driver's state; State.cpp.
struct Failure {
  Result code;
  int64_t skip, times;
};

struct State {
  State();
  // Settings.
  std::map<std::string, int64_t> settings;
  std::map<std::string, std::vector<Failure>> failures;
  std::set<std::string> missing;
  std::string jitLog, name = "altgrad's interpreter of PTX";
  std::map<std::string, Result> refused, lacking; // images, by words in them
  void (*onLaunch)(const fakecuda_launch *) = nullptr;
  char *(*edit)(const char *) = nullptr; // what is loaded
  // Objects.
  std::vector<std::unique_ptr<Context>> contexts; // of the devices
  std::map<void *, std::shared_ptr<Stream>> streams;
  std::vector<std::shared_ptr<Stream>> allStreams; // destroyed ones included
  uint64_t threads = 0; // that have asked for a stream of their own
  std::map<std::pair<uint64_t, Context *>, std::weak_ptr<Stream>> ofThreads;
  std::map<void *, std::shared_ptr<Event>> events;
  std::map<void *, std::shared_ptr<Module>> modules;
  std::map<void *, std::shared_ptr<Graph>> graphs, executables;
  // With the references that callers have.
  std::map<void *, std::pair<std::shared_ptr<UserObject>, unsigned>> userObjects;
  std::vector<std::shared_ptr<Capture>> captures;
  // What has happened.
  std::map<std::string, int64_t> calls;
  std::vector<Launch> launches;
  int64_t executed = 0, overlapped = 0, instructions = 0, waits = 0;
  std::string lastFault, lastPtx;
  std::vector<std::string> images;
  int64_t linking = 0; // not yet destroyed
  uint64_t random = 0, captureCount = 0;

  int64_t get(const char *name) const { return settings.at(name); }
  Context *context(int device);
  uint64_t next(); // random number
};
State &state();
std::recursive_mutex &lock();
// What each thread has made current. Nothing is left of it to destroy: objects
// of a thread may call the driver when its thread_local ones are gone.
class ContextStack {
public:
  bool empty() const { return count == 0; }
  Context *back() const { return held[count - 1]; }
  void push_back(Context *context) {
    if (count == most)
      abort();
    held[count++] = context;
  }
  void pop_back() { --count; }
  void clear() { count = 0; }

private:
  static constexpr size_t most = 64;
  Context *held[most] = {};
  size_t count = 0;
};
ContextStack &contextStack();

template <class Map> auto look(Map &map, void *handle) {
  auto found = map.find(handle);
  return found == map.end() ? nullptr : found->second;
}

// The code for the first words that stand in a text, or 0.
Result findWords(const std::map<std::string, Result> &codes,
                 const std::string &text);

// What a function needs before it does anything.
enum Needs : unsigned { Init = 1, Current = 2, Safe = 4 };

class Call {
public:
  Call(const char *name, unsigned needs);
  Result error = 0;
  Context *context = nullptr;

private:
  std::lock_guard<std::recursive_mutex> held;
};

struct Entry {
  Entry(const char *name, int since, void *function);
};

#define CU(name, since, ...)                                                   \
  static Result name(__VA_ARGS__);                                             \
  static const Entry name##Entry(#name, since, (void *)&name);                 \
  static Result name(__VA_ARGS__)
#define ENTER(needs)                                                           \
  Call call(__func__, needs);                                                  \
  if (call.error)                                                              \
    return call.error;

} // namespace fakecuda

#endif
