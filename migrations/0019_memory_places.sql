-- Each place has a number, and its memories have their numbers (n) in a range of that place alone: 2^32 from number * 2^32 on.
-- So the index is asked for a range of rows, and what others have stored costs a search nothing. A change takes the next
-- free number, so that in a place the order of n is the order of the last changes.
create table memory_places (
  number integer primary key,
  place text not null unique
);
insert into memory_places (place) select distinct place from memories order by place;
update memories set n = n + ((select number from memory_places where memory_places.place = memories.place) << 32);
