// The matching index: which subscriptions of which destinations does each event of a batch match?
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <unordered_map>

#include "cluster.hpp"
#include "members.hpp"
#include "references.hpp"

namespace tidewire {

// The answer for a batch, flat. Delivery i of an event goes to destination[i]; its numbers are
// numbers[number_first[i] .. number_first[i+1]), or it has `more` than the limit and no numbers.
struct Matches {
  std::vector<u32> event_first{0};
  std::vector<u32> destination;
  std::vector<u8> more;
  std::vector<u32> number_first{0};
  std::vector<u32> numbers;
  std::vector<std::pair<u32, const char*>> damaged;  // event and what is wrong with it
  u32 next = 0;              // the first event that was not looked at
  u64 entries_matched = 0;   // distinct filters, over all events
  const char* batch_error = nullptr;

  // For the next batch; the memory stays.
  void clear() {
    for (std::vector<u32>* part : {&event_first, &number_first}) part->assign(1, 0);
    for (std::vector<u32>* part : {&destination, &numbers}) part->clear();
    more.clear();
    damaged.clear();
    next = 0;
    entries_matched = 0;
    batch_error = nullptr;
  }
};

// The numbers of all deliveries of an event stand in one array, whose places 32 bits must count.
inline constexpr u32 kLimitMax = 4000;
static_assert(u64{kLimitMax + 2} * (kDestinationMax + 1) < (u64{1} << 32));

// The filter, in msgpack, of the subscription `number` of a destination.
struct Subscription {
  u32 destination, number;
  std::string_view filter;
};

class Index {
 public:
  Index(u64 seed, const SimdOps& simd);
  ~Index();

  // Takes all of these, or throws and changes nothing.
  void insert(std::span<const Subscription> all);
  void remove(u32 destination, u32 number);
  bool has(u32 destination, u32 number) const;
  std::vector<u32> numbers_of(u32 destination) const {
    const NumberMap* numbers = references_.find(destination);
    return numbers == nullptr ? std::vector<u32>{} : numbers->all();
  }

  struct Options {
    u32 first = 0;               // events before this one are skipped
    u32 limit = kNamedMax;       // numbers named per delivery, at most kLimitMax; 0: all
    u64 budget_ns = 0;           // 0: none
    bool settle = true;          // stop matching an event once it is settled
  };
  void match(std::span<const std::string_view> events, const Options& options, Matches& into);
  void match(std::string_view batch, const Options& options, Matches& into);  // events behind their lengths
  // The numbers of the subscriptions that match an event, of whatever destination; one may come several times.
  void match_one(const EventView& event, std::vector<u32>& numbers);

  u32 subscriptions() const { return subscriptions_; }
  u32 entries() const { return entries_; }
  std::size_t bytes() const;
  // The same, by what it is for.
  std::vector<std::pair<std::string, std::size_t>> memory() const;
  // How many times an entry was put somewhere, in all.
  u64 placements() const { return placements_; }
  const char* simd() const { return simd_->name; }

 private:
  // An entry is a distinct conjunction; it is named by the handle of its program, which also says where it is kept.
  struct Placement {
    u32 cluster, slot;
  };
  struct Mark {
    u32 epoch = 0, next = 0, end = 0;  // next beyond end: more than will be named
  };
  // A subscription that is being inserted.
  struct Pending {
    FilterSpec spec;
    std::vector<u32> key_tags;
    Draft draft;
    u32 tag = 0;               // of the draft
    bool is_compiled = false;  // the draft may have brought in names and keys, and is not stored yet
  };
  struct Namer;
  struct Shape;
  struct Visit {
    u32 cluster;
    u32 event;
  };

  // index_edit.cpp
  void prepare(std::span<const Subscription> some);
  void compile(Pending& pending, const Conjunction& conjunction);
  void forget(Pending& pending);
  void insert_prepared(const Subscription& subscription, Pending& pending);
  u32 join_entry(const Pending& pending, u32 destination, u32 number);
  void move_to_list(u32 entry);
  void leave_entry(u32 entry, u32 destination, u32 number);
  void drop_entry(u32 entry);
  void place_entry(u32 entry, Target target);
  Target target_of(u32 entry) const;
  void set_target(u32 entry, Target target);
  template <class Each>
  void each_place(u32 entry, Each visit) const;
  u32 best_access(ProgramView program, Record& best) const;
  u32 cluster_of_key(u32 key);
  u32 cluster_of_presence(u32 attribute);
  void put_in(u32 cluster, u32 entry, Target target);
  void put_in_list(u32 cluster, u32 entry, Target target);
  void set_slot(u32 entry, u32 cluster, u32 slot);
  void take_out(u32 cluster, u32 slot, u32 entry);
  void take_from_list(u32 cluster, u32 position);
  i32 segment_for(const Large& large, ProgramView program) const;
  void empty_list(u32 cluster);
  void grow_segment(u32 cluster);
  u32 add_to_segment(u32 cluster, u32 number, std::span<const Newcomer> entries);
  void new_segment(u32 cluster, std::span<const Newcomer> entries, Segment::Common common);
  void open_segment(u32 cluster, u32 number);
  void close_segment(u32 cluster, u32 number);
  u32 create_segment(u32 cluster, const std::vector<ProgramView>& sample, Segment::Common common, u64 shape);
  void drop_segment(u32 cluster, u32 segment);
  void reshape_segment(u32 cluster, u32 segment);
  void work_off(u32 cluster);
  u32 segment_of_shape(u32 cluster, const Segment& segment, std::vector<u32>& positions);
  std::vector<ProgramView> sample_of(const Segment& segment) const;
  bool move_out(u32 cluster, u32 from, const std::vector<u32>& positions, u32& to);
  void drop_cluster_if_empty(u32 cluster);
  bool move_to_better_keys(u32 cluster);
  ProgramView program_of(u32 entry) const { return ProgramView{arena_.at(entry)}; }
  Newcomer newcomer(u32 entry, Target target) const { return {entry, target, program_of(entry)}; }
  u32 cluster_field(u32 entry) const { return load<u32>(arena_.at(entry) + 4); }
  u32 slot_field(u32 entry) const { return load<u32>(arena_.at(entry) + 8); }
  void set_fields(u32 entry, u32 cluster, u32 slot) {
    store(arena_.at(entry) + 4, cluster);
    store(arena_.at(entry) + 8, slot);
  }

  // index_match.cpp
  const Shape* shape_of(const EventView& event, const char*& wrong);
  const char* read_event(const EventView& event, Context& into);
  void find_keys(Context& event);
  void collect_visits(u32 event);
  void scan_list(const Cluster& cluster, u32 event);
  void match_large();
  void verify();
  void group(Context& event, const Options& options, Matches& into);
  void put_named(Matches& into) const;
  void name_all(const Context& event, Matches& into);
  template <class Each>
  void each_group(const Matched& matched, Each visit) const;
  void open_delivery(u32 destination, Mark& mark);
  void name_up_to_limit(const Context& event);

  // index_settle.cpp
  const KeptTally* tally_of(Segment& segment, const Context& event);
  bool is_settled(const Context& event, std::span<const Visit> visits);
  void settle_events();
  void put_settled(Matches& into) const;

  u64 seed_;
  const SimdOps* simd_;
  Vocabulary words_;
  Library library_;
  Arena arena_;
  u32 entries_ = 0;
  TagTables by_program_;
  Memberships members_;
  Pool<std::vector<Placement>, 8> places_;
  Pool<std::vector<u32>, 8> conjunctions_;
  Pool<Cluster, 8> clusters_;
  u32 root_cluster_ = 0;
  u64 placements_ = 0;
  References references_;  // an entry, or kSeveral and a place in conjunctions_
  u32 subscriptions_ = 0, destinations_used_ = 0;
  static constexpr u32 kTogether = 16;  // inserted step by step
  Pending pending_[kTogether];

  std::unordered_map<u64, std::unique_ptr<Shape>> shapes_;
  const Shape* last_shape_ = nullptr;
  u64 shapes_generation_ = 0;
  std::size_t shape_bytes_ = 0;
  EventView view_;  // here, because clearing a new one for every event takes longer than filling it
  std::vector<Context> contexts_;
  std::vector<Visit> visits_, large_visits_;
  Places found_;
  Buffer<Candidate> maybe_;
  struct Delivery {
    u32 destination, first;
    bool several;
  };
  std::vector<Mark> marks_;
  u32 epoch_ = 0;
  std::vector<Delivery> deliveries_;
  std::vector<u32> named_;  // per delivery the limit and two spare
  u32 named_width_ = 0;
  Tally told_;
  std::vector<const Tally*> tallies_;
  Matched sure_;
  std::vector<u32> everyone_;  // the destinations of a settled event
};

template <class Each>
inline void Index::each_group(const Matched& matched, Each visit) const {
  const auto visit_one = [&](Target target) {
    const u32 number = number_of(target);
    visit(destination_of(target), &number, 1u);
  };
  const auto visit_crowd = [&](Target target) {
    for (const Crowd::Group& group : members_.crowd(target).groups())
      visit(group.destination, group.numbers.get(), group.count);
  };
  for (const Target target : matched.crowd) visit_crowd(target);
  for (const Target target : matched.many) {
    if (is_crowd(target)) {
      visit_crowd(target);
      continue;
    }
    const u8* at = members_.few(target);
    for (u32 count = Memberships::few_count(target); count > 0; --count, at += kFewBytes) visit_one(load_few(at));
  }
  for (const Target target : matched.single) visit_one(target);
}

}  // namespace tidewire
