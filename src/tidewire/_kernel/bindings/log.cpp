// The log for Python, and the files that it is kept in.
#include "log.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "crc32c.hpp"
#include "errors.hpp"
#include "files_memory.hpp"
#include "log_object.hpp"

namespace nb = nanobind;

namespace tidewire {

namespace {

std::string_view view(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }
nb::bytes bytes_of(std::string_view text) { return nb::bytes(text.data(), text.size()); }

nb::tuple shown(const LogRecord& record) {
  return nb::make_tuple(record.pubend, record.tick, record.publisher, record.sequence, record.born_ns, record.error_us,
                        bytes_of(record.event));
}

nb::list shown(const std::vector<LogGroup::Extent>& extents) {
  nb::list found;
  for (const LogGroup::Extent& extent : extents) found.append(nb::make_tuple(extent.pubend, extent.first, extent.last));
  return found;
}

nb::list shown(const std::vector<LogDamage>& damage) {
  nb::list found;
  for (const LogDamage& one : damage) found.append(nb::make_tuple(one.file, one.offset, one.bytes, shown(one.lost)));
  return found;
}

nb::list shown(const std::vector<TickRange>& ranges) {
  nb::list found;
  for (const TickRange& range : ranges) found.append(nb::make_tuple(range.first, range.end));
  return found;
}

const char* name_of(LogTrouble trouble) {
  static constexpr const char* kNames[] = {"none", "behind", "preparing", "full", "failed"};
  return kNames[static_cast<int>(trouble)];
}

void make(LogObject* self, std::shared_ptr<Files> files, u64 log_id, u64 segment_bytes, u32 group_bytes, u64 backlog_bytes_max,
          u64 cache_bytes, u32 inline_events_max, u32 publisher_window, u64 window_events_max, u32 publishers_max,
          u64 publisher_idle_ms, i64 opened_ns) {
  LogOptions options;
  options.id = log_id;
  options.segment_bytes = segment_bytes;
  options.group_bytes = group_bytes;
  options.backlog_bytes_max = backlog_bytes_max;
  options.cache_bytes = cache_bytes;
  options.inline_events_max = inline_events_max;
  options.publisher_window = publisher_window;
  options.window_events_max = window_events_max;
  options.publishers_max = publishers_max;
  options.publisher_idle_ms = publisher_idle_ms;
  options.opened_ns = opened_ns;
  nb::gil_scoped_release released;
  new (self) LogObject(std::move(files), options);
}

u64 append_batch(LogObject& self, u64 pubend, u64 tick, u64 publisher, u64 sequence, i64 born_ns, u32 error_us, nb::bytes batch) {
  const OneAtATime guard(self.busy);
  const std::string_view all = view(batch);
  nb::gil_scoped_release released;
  u64 taken = 0;
  for (std::string_view left = all; !left.empty(); ++taken) {
    if (left.size() < 4 || left.size() - 4 < load<u32>(left.data()))
      throw KernelError("usage", "a batch is events, each behind its length");
    const std::string_view event = left.substr(4, load<u32>(left.data()));
    if (self.log.append({pubend, tick + taken, publisher, sequence + taken, born_ns, error_us, event}) == 0) break;
    left.remove_prefix(4 + event.size());
  }
  return taken;
}

nb::list take(LogObject& self) {
  const OneAtATime guard(self.busy);
  nb::list groups;
  for (const std::shared_ptr<const LogGroup>& group : self.log.take()) {
    nb::list records;
    group->each_event([&](const LogRecord& record) { records.append(shown(record)); });
    groups.append(nb::make_tuple(group->number, records));
  }
  return groups;
}

void fill(const LogObject& self, u64 pubend, u64 from_tick, u64 to_tick, u64 bytes_max, LogPiece& piece) {
  nb::gil_scoped_release released;
  self.log.read(pubend, from_tick, to_tick, bytes_max, piece);
}

nb::tuple read(const LogObject& self, u64 pubend, u64 from_tick, u64 to_tick, u64 bytes_max) {
  LogPiece piece;
  fill(self, pubend, from_tick, to_tick, bytes_max, piece);
  nb::list records;
  for (const LogRecord& record : piece.records) records.append(shown(record));
  return nb::make_tuple(records, shown(piece.lost), piece.next);
}

nb::tuple read_batch(const LogObject& self, u64 pubend, u64 from_tick, u64 to_tick, u64 bytes_max) {
  thread_local LogPiece piece;
  fill(self, pubend, from_tick, to_tick, bytes_max, piece);
  std::size_t total = 0;
  for (const LogRecord& record : piece.records) total += 4 + record.event.size();
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(total));
  if (made == nullptr) throw nb::python_error();
  char* at = PyBytes_AS_STRING(made);
  for (const LogRecord& record : piece.records) {
    store(at, static_cast<u32>(record.event.size()));
    if (!record.event.empty()) std::memcpy(at + 4, record.event.data(), record.event.size());
    at += 4 + record.event.size();
  }
  piece.groups.clear();
  return nb::make_tuple(nb::steal<nb::bytes>(made), shown(piece.lost), piece.next);
}

nb::tuple report(const LogObject& self) {
  const LogReport& of = self.log.report();
  return nb::make_tuple(of.is_new, of.groups, of.events, of.cut_bytes, of.cut_file, shown(of.damage));
}

nb::list segments(LogObject& self) {
  nb::list found;
  for (const Log::Segment& one : self.log.segments()) found.append(nb::make_tuple(one.number, one.bytes, shown(one.extents)));
  return found;
}

nb::object get(LogObject& self, nb::bytes key) {
  const OneAtATime guard(self.busy);
  const std::optional<std::string> found = self.log.get(view(key));
  return found ? nb::object(bytes_of(*found)) : nb::object(nb::none());
}

nb::list items(LogObject& self, nb::bytes prefix) {
  const OneAtATime guard(self.busy);
  nb::list found;
  for (const auto& [key, value] : self.log.items(view(prefix))) found.append(nb::make_tuple(bytes_of(key), bytes_of(value)));
  return found;
}

// A method of the owner's thread that does not touch the disk.
template <class Result, class... Arguments>
auto quick(Result (Log::*method)(Arguments...)) {
  return [method](LogObject& self, Arguments... arguments) {
    const OneAtATime guard(self.busy);
    return (self.log.*method)(arguments...);
  };
}

template <class Result, class... Arguments>
auto quick(Result (Log::*method)(Arguments...) const) {
  return [method](LogObject& self, Arguments... arguments) {
    const OneAtATime guard(self.busy);
    return (self.log.*method)(arguments...);
  };
}

// One that does.
template <class Result>
auto slow(Result (Log::*method)()) {
  return [method](LogObject& self) {
    const OneAtATime guard(self.busy);
    nb::gil_scoped_release released;
    return (self.log.*method)();
  };
}

void bind_files(nb::module_& module) {
  nb::class_<Files>(module, "Files", "Where a log keeps its bytes.")
      .def_prop_ro("place", &Files::place)
      .def("list", [](const Files& self) {
        nb::list found;
        for (const Files::Entry& entry : self.list()) found.append(nb::make_tuple(entry.name, entry.size));
        return found;
      });
  nb::class_<PosixFiles, Files>(module, "PosixFiles", "Files of a folder of the machine.")
      .def(nb::init<std::string>(), nb::arg("folder"));
  nb::class_<MemoryFiles, Files>(module, "MemoryFiles", "Files in memory: they forget, tear, fill up, fail and lie when told to.")
      .def(nb::init<>())
      .def("crash", &MemoryFiles::crash, nb::arg("seed"), "The power goes.")
      .def("set_capacity", &MemoryFiles::set_capacity, nb::arg("bytes_max"))
      .def("fail", &MemoryFiles::fail, nb::arg("kind"), nb::arg("error"), nb::arg("after") = 0,
           "Calls to write, sync, create or read fail with this errno, but for the next few; 0: no more.")
      .def("lie", &MemoryFiles::lie, nb::arg("lies"), "A sync does nothing and says that it is done.")
      .def("damage", [](MemoryFiles& self, const std::string& name, u64 offset, nb::bytes data) {
             self.damage(name, offset, view(data));
           }, nb::arg("name"), nb::arg("offset"), nb::arg("data"))
      .def("add", [](MemoryFiles& self, const std::string& name, nb::bytes content) {
             self.create(name, content.size(), view(content));
           }, nb::arg("name"), nb::arg("content"), "A file with this content, on the disk.")
      .def("content", [](const MemoryFiles& self, const std::string& name) { return bytes_of(self.content(name)); },
           nb::arg("name"))
      .def_prop_ro("writes", &MemoryFiles::writes)
      .def_prop_ro("syncs", &MemoryFiles::syncs)
      .def_prop_ro("unsynced_pages", &MemoryFiles::unsynced_pages);
}

}  // namespace

void bind_log(nb::module_& module) {
  module.def("crc32c",
             [](nb::bytes data, u32 before, bool portable) {
               return (portable ? crc32c_portable : crc32c)(before, data.c_str(), data.size());
             },
             nb::arg("data"), nb::arg("before") = 0, nb::arg("portable") = false);
  bind_files(module);
  const LogOptions usual;
  nb::class_<LogObject>(module, "Log", "The log of a broker; one thread at a time, but for reading.")
      .def("__init__", &make, nb::arg("files"), nb::arg("log_id") = usual.id, nb::arg("segment_bytes") = usual.segment_bytes,
           nb::arg("group_bytes") = usual.group_bytes, nb::arg("backlog_bytes_max") = usual.backlog_bytes_max,
           nb::arg("cache_bytes") = usual.cache_bytes, nb::arg("inline_events_max") = usual.inline_events_max,
           nb::arg("publisher_window") = usual.publisher_window, nb::arg("window_events_max") = usual.window_events_max,
           nb::arg("publishers_max") = usual.publishers_max, nb::arg("publisher_idle_ms") = usual.publisher_idle_ms,
           nb::arg("opened_ns") = usual.opened_ns)
      .def_prop_ro("log_id", [](const LogObject& self) { return self.log.id(); })
      .def_prop_ro("report", &report, "is new, groups, events, cut bytes, cut file, damage")
      .def("append",
           [](LogObject& self, u64 pubend, u64 tick, u64 publisher, u64 sequence, i64 born_ns, u32 error_us, nb::bytes event) {
             const OneAtATime guard(self.busy);
             return self.log.append({pubend, tick, publisher, sequence, born_ns, error_us, view(event)});
           },
           nb::arg("pubend"), nb::arg("tick"), nb::arg("publisher"), nb::arg("sequence"), nb::arg("born_ns"), nb::arg("error_us"),
           nb::arg("event"), "The number of its group; 0: there is no room right now.")
      .def("append_batch", &append_batch, nb::arg("pubend"), nb::arg("tick"), nb::arg("publisher"), nb::arg("sequence"),
           nb::arg("born_ns"), nb::arg("error_us"), nb::arg("batch"),
           "Events of a batch, with ascending ticks and sequences; how many were taken.")
      .def("put", [](LogObject& self, nb::bytes key, nb::bytes value) {
             return OneAtATime(self.busy), self.log.put(view(key), view(value));
           }, nb::arg("key"), nb::arg("value"))
      .def("erase", [](LogObject& self, nb::bytes key) { return OneAtATime(self.busy), self.log.erase(view(key)); },
           nb::arg("key"))
      .def("advance", quick(&Log::advance), nb::arg("pubend"), nb::arg("tick"))
      .def("lose", quick(&Log::lose), nb::arg("pubend"), nb::arg("first"), nb::arg("last"))
      .def("losses", [](const LogObject& self, u64 pubend) {
        nb::list found;
        for (const LogLoss& one : self.log.losses(pubend)) found.append(nb::make_tuple(one.first, one.last, one.found_ns));
        return found;
      }, nb::arg("pubend"), "What is known to be lost: first and last tick, when that was found.")
      .def("forget", quick(&Log::forget), nb::arg("pubend"))
      .def("release", quick(&Log::release), nb::arg("pubend"), nb::arg("tick"))
      .def("seal", quick(&Log::seal))
      .def("commit", slow(&Log::commit), "Everything is durable, or (False) there is no room.")
      .def("write", slow(&Log::write), "What is sealed is written.")
      .def("sync", slow(&Log::sync), "What is written is synced.")
      .def("start", slow(&Log::start), "Threads do the work from now on; the eventfd that tells of it.")
      .def("submit", slow(&Log::submit), "To the disk, now or by the thread; True: all is durable already.")
      .def("take", &take, "The groups that have become durable, with their events.")
      .def_prop_ro("durable", [](const LogObject& self) { return self.log.durable(); })
      .def_prop_ro("waiting_events", [](const LogObject& self) { return self.log.waiting_events(); })
      .def_prop_ro("trouble", [](const LogObject& self) { return name_of(self.log.trouble()); })
      .def_prop_ro("trouble_text", [](const LogObject& self) { return self.log.trouble_text(); })
      .def("close", slow(&Log::close))
      .def("get", &get, nb::arg("key"))
      .def("items", &items, nb::arg("prefix"))
      .def("pubends", quick(&Log::pubends))
      .def("last_tick", quick(&Log::last_tick), nb::arg("pubend"))
      .def("durable_tick", quick(&Log::durable_tick), nb::arg("pubend"))
      .def("released_tick", quick(&Log::released_tick), nb::arg("pubend"))
      .def("first_tick", quick(&Log::first_tick), nb::arg("pubend"), nb::arg("from_tick") = 0)
      .def("last_sequence", quick(&Log::last_sequence), nb::arg("pubend"), nb::arg("publisher"))
      .def("tick_of", quick(&Log::tick_of), nb::arg("pubend"), nb::arg("publisher"), nb::arg("sequence"))
      .def_prop_ro("publishers", [](const LogObject& self) { return self.log.publishers(); })
      .def("read", &read, nb::arg("pubend"), nb::arg("from_tick"), nb::arg("to_tick"), nb::arg("bytes_max") = 1u << 20,
           "Events of [from, to), what is lost of it, and where it stopped.")
      .def("read_batch", &read_batch, nb::arg("pubend"), nb::arg("from_tick"), nb::arg("to_tick"),
           nb::arg("bytes_max") = 1u << 20, "The same, the events as a batch.")
      .def("segments", &segments, "number, bytes, (pubend, first tick, last tick) of each pubend")
      .def_prop_ro("disk_bytes", [](const LogObject& self) { return self.log.disk_bytes(); })
      .def("check", [](const LogObject& self) {
        std::vector<LogDamage> damage;
        {
          nb::gil_scoped_release released;
          damage = self.log.check();
        }
        return shown(damage);
      }, "Reads everything; what is damaged.");
}

}  // namespace tidewire
