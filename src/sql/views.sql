-- The views that PerfettoSQL users expect, with its names and columns in its order. In Perfetto the last three come with
-- INCLUDE PERFETTO MODULE slices.with_context; here they always exist.
--
-- All are joins that SQLite can flatten into the query that uses them, so that a condition on a name or an id reaches the
-- underlying table. That is why none of them is a UNION or has an ORDER BY.

-- Row: a slice, under the table's older name.
CREATE VIEW slices AS
SELECT
  id, ts, dur, track_id, category, name, depth, parent_id, arg_set_id, thread_ts, thread_dur,
  thread_instruction_count, thread_instruction_delta, cat, slice_id
FROM slice;

-- Row: a slice of length 0: an instant.
CREATE VIEW instant AS
SELECT ts, track_id, name, arg_set_id
FROM slice
WHERE dur = 0;

-- Row: a slice on the track of a thread, or on one of its lanes, with its thread and process. Every thread has a process.
CREATE VIEW thread_slice AS
SELECT
  slice.id AS id, slice.ts AS ts, slice.dur AS dur, slice.category AS category, slice.name AS name,
  slice.track_id AS track_id, thread_track.name AS track_name, thread.name AS thread_name, thread.utid AS utid,
  thread.tid AS tid, thread.is_main_thread AS is_main_thread, process.name AS process_name, process.upid AS upid,
  process.pid AS pid, slice.depth AS depth, slice.parent_id AS parent_id, slice.arg_set_id AS arg_set_id,
  slice.thread_ts AS thread_ts, slice.thread_dur AS thread_dur
FROM slice
JOIN thread_track ON thread_track.id = slice.track_id
JOIN thread ON thread.utid = thread_track.utid
JOIN process ON process.upid = thread.upid;

-- Row: a slice on a track of a process, with its process.
CREATE VIEW process_slice AS
SELECT
  slice.id AS id, slice.ts AS ts, slice.dur AS dur, slice.category AS category, slice.name AS name,
  slice.track_id AS track_id, process_track.name AS track_name, process.name AS process_name, process.upid AS upid,
  process.pid AS pid, slice.depth AS depth, slice.parent_id AS parent_id, slice.arg_set_id AS arg_set_id,
  slice.thread_ts AS thread_ts, slice.thread_dur AS thread_dur
FROM slice
JOIN process_track ON process_track.id = slice.track_id
JOIN process ON process.upid = process_track.upid;

-- Row: a slice of either kind. A track belongs to a thread or to a process, never to both, so one of the two joins finds nothing.
CREATE VIEW thread_or_process_slice AS
SELECT
  slice.id AS id, slice.ts AS ts, slice.dur AS dur, slice.category AS category, slice.name AS name,
  slice.track_id AS track_id, track.name AS track_name, thread.name AS thread_name, thread.utid AS utid,
  thread.tid AS tid, process.name AS process_name, process.upid AS upid, process.pid AS pid, slice.depth AS depth,
  slice.parent_id AS parent_id, slice.arg_set_id AS arg_set_id
FROM slice
JOIN track ON track.id = slice.track_id
LEFT JOIN thread_track ON thread_track.id = slice.track_id
LEFT JOIN thread ON thread.utid = thread_track.utid
LEFT JOIN process_track ON process_track.id = slice.track_id
JOIN process ON process.upid = coalesce(thread.upid, process_track.upid);
