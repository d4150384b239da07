// Streams under capture, the graphs they become, and the graphs' launches.
#include "Fake.h"

#include <algorithm>

using namespace fakecuda;

namespace {

// CU_STREAM_CAPTURE_MODE_...
enum Mode { Global = 0, ThreadLocal = 1, Relaxed = 2 };
thread_local int threadMode = Global;

// Every node must come before the end of the stream where the capture began.
bool isJoined(const Capture &capture) {
  std::set<size_t> seen = capture.origin->heads;
  std::vector<size_t> open(seen.begin(), seen.end());
  while (!open.empty()) {
    size_t node = open.back();
    open.pop_back();
    for (size_t before : capture.nodes[node].after)
      if (seen.insert(before).second)
        open.push_back(before);
  }
  return seen.size() == capture.nodes.size();
}

void leave(const std::shared_ptr<Capture> &capture) {
  State &s = state();
  for (auto &stream : s.allStreams)
    if (stream->capture == capture) {
      stream->capture = nullptr;
      stream->heads.clear();
    }
  capture->ended = true;
  s.captures.erase(std::find(s.captures.begin(), s.captures.end(), capture));
}

// Some order that the edges allow: without a seed the youngest node first.
std::vector<size_t> orderOf(const std::vector<Node> &nodes) {
  std::vector<size_t> order;
  std::vector<bool> done(nodes.size(), false);
  while (order.size() < nodes.size()) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (!done[i] && std::all_of(nodes[i].after.begin(), nodes[i].after.end(),
                                  [&](size_t before) { return done[before]; }))
        ready.push_back(i);
    size_t next = state().get("seed") ? ready[state().next() % ready.size()]
                                      : ready.back();
    done[next] = true;
    order.push_back(next);
  }
  return order;
}

} // namespace

void fakecuda::invalidate(Capture &capture) { capture.invalid = true; }

Result fakecuda::checkSafe() {
  if (threadMode == Relaxed)
    return 0;
  Result error = 0;
  for (auto &capture : state().captures) {
    bool mine = capture->thread == std::this_thread::get_id();
    if (mine ? capture->mode != Relaxed
             : threadMode == Global && capture->mode == Global) {
      invalidate(*capture);
      error = CaptureUnsupported;
    }
  }
  return error;
}

Result fakecuda::checkImplicit(const Stream &stream) {
  if (&stream != stream.context->legacy.get())
    return 0;
  for (auto &other : state().allStreams)
    if (other->capture && other->blocking && other->context == stream.context) {
      invalidate(*other->capture);
      return CaptureImplicit;
    }
  return 0;
}

CU(cuThreadExchangeStreamCaptureMode, 10010, int *mode) {
  ENTER(Init)
  if (!mode || *mode < Global || *mode > Relaxed)
    return InvalidValue;
  std::swap(*mode, threadMode);
  return 0;
}

CU(cuStreamBeginCapture, 10010, void *handle, int mode) {
  ENTER(Init | Current)
  Stream *stream = streamOf(handle, call.context);
  if (!stream)
    return InvalidHandle;
  if (mode < Global || mode > Relaxed)
    return InvalidValue;
  if (stream == stream->context->legacy.get())
    return CaptureUnsupported;
  if (stream->capture) {
    invalidate(*stream->capture);
    return IllegalState;
  }
  auto capture = std::make_shared<Capture>();
  capture->id = ++state().captureCount;
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  stream->capture = capture;
  stream->heads.clear();
  state().captures.push_back(capture);
  return 0;
}

CU(cuStreamEndCapture, 10000, void *handle, void **out) {
  ENTER(Init | Current)
  Stream *stream = streamOf(handle, call.context);
  if (!stream)
    return InvalidHandle;
  if (!out)
    return InvalidValue;
  *out = nullptr;
  auto capture = stream->capture;
  if (!capture)
    return IllegalState;
  if (capture->origin != stream) {
    invalidate(*capture);
    return CaptureUnmatched;
  }
  if (capture->mode != Relaxed &&
      capture->thread != std::this_thread::get_id()) {
    invalidate(*capture);
    return CaptureWrongThread;
  }
  Result error = capture->invalid     ? CaptureInvalidated
                 : isJoined(*capture) ? 0
                                      : CaptureUnjoined;
  Context *context = stream->context;
  leave(capture);
  auto graph = std::move(capture->graph);
  if (error) {
    graph.reset();
    runCallbacks();
    return error;
  }
  graph->context = context;
  graph->nodes = std::move(capture->nodes);
  *out = graph.get();
  state().graphs[*out] = graph;
  return 0;
}

CU(cuStreamIsCapturing, 10000, void *handle, int *out) {
  ENTER(Init | Current)
  Stream *stream = streamOf(handle, call.context);
  if (!stream)
    return InvalidHandle;
  *out = 0;
  if (stream == stream->context->legacy.get()) {
    // Asking is no use of the stream: nothing is invalidated.
    for (auto &other : state().allStreams)
      if (other->capture && other->blocking &&
          other->context == stream->context)
        return CaptureImplicit;
    return 0;
  }
  if (stream->capture)
    *out = stream->capture->invalid ? 2 : 1;
  return 0;
}

// As version 11.3 has it.
CU(cuStreamGetCaptureInfo, 11030, void *handle, int *status, uint64_t *id,
   void **graph, const void ***dependencies, size_t *count) {
  ENTER(Init | Current)
  Stream *stream = streamOf(handle, call.context);
  if (!stream)
    return InvalidHandle;
  if (!status)
    return InvalidValue;
  if (Result error = checkImplicit(*stream))
    return error;
  *status = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
  if (id && stream->capture)
    *id = stream->capture->id;
  if (graph)
    *graph = stream->capture ? stream->capture->graph.get() : nullptr;
  if (dependencies)
    *dependencies = nullptr;
  if (count)
    *count = stream->heads.size();
  return 0;
}

CU(cuGraphInstantiateWithFlags, 11040, void **out, void *handle, uint64_t) {
  ENTER(Init | Current)
  auto graph = look(state().graphs, handle);
  if (!graph)
    return InvalidValue;
  auto executable = std::make_shared<Graph>(*graph);
  *out = executable.get();
  state().executables[*out] = executable;
  return 0;
}

CU(cuGraphLaunch, 10000, void *handle, void *streamHandle) {
  ENTER(Init | Current)
  auto graph = look(state().executables, handle);
  Stream *stream = streamOf(streamHandle, call.context);
  if (!graph || !stream)
    return !graph ? InvalidValue : InvalidHandle;
  if (stream->context->sticky)
    return stream->context->sticky;
  if (Result error = checkImplicit(*stream))
    return error;
  if (stream->capture) { // a graph within a graph: nobody needs it here
    invalidate(*stream->capture);
    return NotSupported;
  }
  bool first = true;
  for (size_t number : orderOf(graph->nodes)) {
    const Work &work = graph->nodes[number].work;
    for (auto &event : {work.record, work.wait})
      if (event && event->destroyed)
        return fault(InvalidHandle, "a graph uses an event that is destroyed");
    Task task;
    task.run = work.run;
    if (first && graph->last)
      task.after.push_back(graph->last);
    first = false;
    if (work.wait && work.wait->mark)
      task.after.push_back(work.wait->mark);
    MarkPointer mark = enqueue(*stream, std::move(task));
    if (work.record)
      work.record->mark = mark;
  }
  graph->last = stream->last;
  return 0;
}

CU(cuGraphExecDestroy, 10000, void *handle) {
  ENTER(Init)
  Result error = state().executables.erase(handle) ? 0 : InvalidValue;
  runCallbacks();
  return error;
}

CU(cuGraphDestroy, 10000, void *handle) {
  ENTER(Init)
  Result error = state().graphs.erase(handle) ? 0 : InvalidValue;
  runCallbacks();
  return error;
}
