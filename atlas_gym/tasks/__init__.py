"""What is posed: tasks for programs, their calls and answers, and where they are found."""
