"""The front door: `polvet.load`, its `Task` and `Policy`, and results people look at; every verb is done by the room that owns it."""
