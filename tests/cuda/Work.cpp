// Queues: what is submitted is done when somebody waits, as late and in as
// awkward an order as events allow.
#include "Fake.h"

#include <algorithm>
#include <cstring>

using namespace fakecuda;

namespace {

bool isReady(const Task &task) {
  return std::all_of(task.after.begin(), task.after.end(),
                     [](const MarkPointer &mark) { return mark->done; });
}

void doFirst(Stream &stream) {
  Task task = std::move(stream.tasks.front());
  stream.tasks.pop_front();
  // After a fault the context does nothing more.
  Context &context = *stream.context;
  // What may overlap with this kernel begins first, for as long as it may.
  Task *next = stream.tasks.empty() ? nullptr : &stream.tasks.front();
  if (task.kernel && next && next->kernel && isReady(*next) && !context.sticky)
    context.sticky = next->kernel->begin(*task.kernel, stream.lastKernel);
  if (task.kernel && !context.sticky)
    context.sticky = task.kernel->run(stream.lastKernel);
  else if (task.run && !context.sticky)
    context.sticky = task.run();
  stream.lastKernel = task.kernel ? task.kernel->number() : 0;
  task.mark->done = true;
  task.mark->at = state().settings.at("clock");
}

// Only what has to be done before the mark is passed.
void force(const MarkPointer &mark) {
  while (!mark->done) {
    Stream &stream = *mark->stream;
    auto after = stream.tasks.front().after;
    for (const MarkPointer &other : after)
      force(other);
    doFirst(stream);
  }
}

// Of the streams whose first task may run the most urgent one: the youngest, or
// with a seed any, for as long as it likes, so that others starve. Null when
// nothing is left.
Stream *pickReady() {
  State &s = state();
  Stream *best = nullptr;
  for (auto &stream : s.allStreams) {
    if (s.get("seed") && (!stream->urgency || s.next() % 32 == 0))
      stream->urgency = s.next();
    if (!stream->tasks.empty() && isReady(stream->tasks.front()) &&
        (!best || stream->urgency >= best->urgency))
      best = stream.get();
  }
  return best;
}

void dropFinished() {
  State &s = state();
  auto &all = s.allStreams;
  all.erase(std::remove_if(all.begin(), all.end(),
                           [&](const std::shared_ptr<Stream> &stream) {
                             return stream.use_count() == 1 &&
                                    stream->tasks.empty();
                           }),
            all.end());
}

} // namespace

Result fakecuda::fault(Result code, const std::string &words) {
  state().lastFault = words;
  fprintf(stderr, "fakecuda: fault %d: %s\n", code, words.c_str());
  return code;
}

size_t fakecuda::pending() {
  size_t count = 0;
  for (auto &stream : state().allStreams)
    count += stream->tasks.size();
  return count;
}

MarkPointer fakecuda::enqueue(Stream &stream, Task task) {
  Context &context = *stream.context;
  // The legacy stream and the blocking ones of a context follow each other.
  if (&stream == context.legacy.get()) {
    for (auto &other : state().allStreams)
      if (other.get() != &stream && other->context == &context &&
          other->blocking && other->last)
        task.after.push_back(other->last);
  } else if (stream.blocking && context.legacy->last) {
    task.after.push_back(context.legacy->last);
  }
  task.mark->stream = &stream;
  stream.last = task.mark;
  stream.tasks.push_back(std::move(task));
  MarkPointer mark = stream.last;
  if (state().get("eager"))
    drain();
  return mark;
}

Result fakecuda::submit(Stream &stream, Work work) {
  if (stream.context->sticky)
    return stream.context->sticky;
  if (Result error = checkImplicit(stream))
    return error;
  if (stream.capture) {
    if (stream.capture->invalid)
      return CaptureInvalidated;
    std::vector<Node> &nodes = stream.capture->nodes;
    nodes.push_back({std::move(work), stream.heads});
    stream.heads = {nodes.size() - 1};
    return 0;
  }
  Task task;
  task.run = std::move(work.run);
  if (work.launch)
    task.kernel = std::make_shared<Running>(*work.launch, *stream.context);
  enqueue(stream, std::move(task));
  return 0;
}

void fakecuda::waitFor(const MarkPointer &mark) {
  if (!mark || mark->done)
    return;
  ++state().waits;
  Opened opened;
  // What nobody waits for may come first as well as last.
  if (state().get("seed") && state().next() % 2)
    while (!mark->done)
      doFirst(*pickReady());
  force(mark);
  dropFinished();
}

void fakecuda::waitForStream(Stream &stream) { waitFor(stream.last); }

void fakecuda::waitForContext(Context &context) {
  auto all = state().allStreams;
  for (auto &stream : all)
    if (stream->context == &context)
      waitForStream(*stream);
}

void fakecuda::drain() {
  if (!pending())
    return;
  Opened opened;
  while (Stream *next = pickReady())
    doFirst(*next);
  dropFinished();
}

// With an odd seed the device may be quick; else it does nothing until it must.
void fakecuda::progress() {
  if (state().get("seed") % 2 == 0 || !pending() || state().next() % 4)
    return;
  Opened opened;
  for (uint64_t count = state().next() % 3 + 1; count; --count)
    if (Stream *next = pickReady())
      doFirst(*next);
}

Stream *fakecuda::streamOf(void *handle, Context *context) {
  State &s = state();
  // CU_STREAM_LEGACY is 1, CU_STREAM_PER_THREAD 2.
  if (uint64_t(handle) <= 1)
    return context ? context->legacy.get() : nullptr;
  if (uint64_t(handle) == 2) {
    static thread_local uint64_t self = ++s.threads;
    std::weak_ptr<Stream> &mine = s.ofThreads[{self, context}];
    std::shared_ptr<Stream> stream = mine.lock();
    if (!stream) {
      stream = std::make_shared<Stream>();
      stream->context = context;
      mine = stream;
      s.allStreams.push_back(stream);
    }
    return stream.get();
  }
  auto found = s.streams.find(handle);
  return found == s.streams.end() ? nullptr : found->second.get();
}
