// What a follower is sent, in bulk: off the connection, and into columns.
#include "columns.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "errors.hpp"
#include "harvest.hpp"

namespace nb = nanobind;

namespace tidewire {

namespace {

nb::bytes bytes_of(std::string_view text) { return nb::bytes(text.data(), text.size()); }

nb::tuple harvest(nb::bytes data, u32 number, nb::dict places, u32 frame_bytes_max) {
  std::unordered_map<u64, u64> known;
  for (const auto& [pubend, tick] : places) known[nb::cast<u64>(pubend)] = nb::cast<u64>(tick);
  const std::string_view view(data.c_str(), data.size());
  Harvest found;
  {
    nb::gil_scoped_release released;
    found = harvest_frames(view, number, known, frame_bytes_max);
  }
  nb::list spans;
  for (const HarvestedSpan& span : found.spans)
    spans.append(nb::make_tuple(span.pubend, span.first, span.last, span.count, bytes_of(span.batch)));
  return nb::make_tuple(found.consumed, bytes_of(found.others), spans);
}

WantedColumns wanted_of(const nb::list& columns, bool takes_others, i32 time_column, i64 late_us) {
  WantedColumns wanted{{}, takes_others, time_column, late_us};
  for (nb::handle item : columns) {
    const nb::tuple one = nb::cast<nb::tuple>(item);
    const int type = nb::cast<int>(one[1]);
    if (type < 1 || type > 6) throw KernelError("usage", "a column is of a type that events do not carry");
    wanted.columns.push_back({nb::cast<std::string>(one[0]), static_cast<Type>(type), nb::cast<bool>(one[2])});
  }
  const i32 count = static_cast<i32>(wanted.columns.size());
  if (time_column >= count || (time_column >= 0 && wanted.columns[static_cast<std::size_t>(time_column)].type != Type::kTimestamp))
    throw KernelError("usage", "the column that tells when it happened is one of timestamps");
  return wanted;
}

nb::tuple buffers(const Column& column) {
  const std::string_view offsets(reinterpret_cast<const char*>(column.offsets.data()), column.offsets.size() * sizeof(i32));
  nb::object places = column.is_text() ? nb::object(bytes_of(offsets)) : nb::object(nb::none());
  return nb::make_tuple(column.rows, column.nulls, bytes_of(column.valid), places, bytes_of(column.data));
}

nb::tuple columns_of(nb::bytes batch, nb::list columns, u64 first, u64 end, bool takes_others, i32 time_column, i64 late_us) {
  const WantedColumns wanted = wanted_of(columns, takes_others, time_column, late_us);
  const std::string_view view(batch.c_str(), batch.size());
  Columns found;
  {
    nb::gil_scoped_release released;
    found = read_columns(view, wanted, first, end);
  }
  nb::list made, faults;
  for (const Column& column : found.columns) made.append(buffers(column));
  for (const Fault& fault : found.faults) {
    const char* kind = fault.kind == FaultKind::kLate ? "late" : "malformed";
    faults.append(nb::make_tuple(fault.tick, kind, fault.reason, bytes_of(fault.event)));
  }
  return nb::make_tuple(buffers(found.ticks), buffers(found.body), buffers(found.content_type), made, faults);
}

}  // namespace

void bind_columns(nb::module_& module) {
  module.def("harvest", &harvest, nb::arg("data"), nb::arg("number"), nb::arg("places"), nb::arg("frame_bytes_max"),
             "(bytes consumed, other frames, spans) of what has come on the connection of a follower.");
  module.def("read_columns", &columns_of, nb::arg("batch"), nb::arg("columns"), nb::arg("first"), nb::arg("end"),
             nb::arg("takes_others") = false, nb::arg("time_column") = -1, nb::arg("late_us") = 0,
             "(ticks, bodies, content types, columns, faults) of the events of a batch, as buffers of Arrow.");
}

}  // namespace tidewire
